package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// TestFormatOfAgentsStays holds what is stored against what earlier versions have
// written: a store must find it again.
func TestFormatOfAgentsStays(t *testing.T) {
	var total sum
	total.add(digest("h", []byte(`{"since":1}`)))
	total.add(digest("m/0000000000000/0000000001", []byte(`{"since":1,"id":"m"}`)))
	text, err := total.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	e := &edit{au: "0123456789abc", led: ledger{AgentID: "agent-1"}}
	r := &infoRecord{Kind: Manual, Name: "n", Conversation: "c", Iteration: 5}
	for _, c := range []struct{ what, got, want string }{
		{"sum", string(text), "32d17e98993a2d942d1b39e66ab09eee65176acfaae44e28144f75fa2ad38d5c"},
		{"SHA-256", e.fingerprint(r, 7, total), "38b525e64e7f60acbd29899f44f0acf3782d695298a8a16f004399efd252809f"},
		{"made id", madeID("0123456789abc", 7), "0123456789abc-7"},
		{"message", messageKey("A", "V", 12), "msg/A/V/0000000012"},
		{"history", historyKey("A", 12, 3, messagePart("V", 9)), "hist/A/0000000012/0000000003/m/V/0000000009"},
		{"entry", ownKey("a/b%"), "a%2Fb%25"},
		{"entry without a name", ownKey(""), "%=e3b0c44298fc1c149afbf4c8996fb924"},
		{"checkpoint", e.infoKey(7), "info/0123456789abc/0000000007"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	k, ok := parseHistory("A", "hist/A/0000000012/0000000003/m/V/0000000009")
	if !ok || k != (pastKey{12, 3, "m/V/0000000009"}) {
		t.Errorf("the history's key reads as %+v", k)
	}
	for _, bad := range []string{"0123456789abc-0", "0123456789abc-07", "0123456789abz-7", "0123456789ab-7", "0123456789abc7"} {
		if _, _, ok := parseMadeID(bad); ok {
			t.Errorf("%q reads as a made id", bad)
		}
	}
	if n := innerName(); len(n) != 13 || strings.Trim(n, "0123456789abcdefghijklmnopqrstuv") != "" {
		t.Errorf("an inner name is %q", n)
	}
}

func TestSumsComeAndGoInAnyOrder(t *testing.T) {
	one, two := digest("a", []byte("1")), digest("b", []byte("2"))
	var s sum
	s.sub(one) // below zero, and around
	s.add(two)
	s.add(one)
	if s != two {
		t.Errorf("%v is left, %v was added", s, two)
	}
	text, err := json.Marshal(s)
	var back sum
	if err != nil || json.Unmarshal(text, &back) != nil || back != s {
		t.Errorf("%s reads as %v", text, back)
	}
	if err := back.UnmarshalText([]byte("xy")); err == nil {
		t.Error("half a sum was read")
	}
	if digest("ab", []byte("c")) == digest("a", []byte("bc")) {
		t.Error("name and bytes run into each other")
	}
}

func FuzzDecodeCheckpoint(f *testing.F) {
	c := &Checkpoint{CheckpointInfo: CheckpointInfo{ID: "c", AgentID: "a"}, State: NewState("a", "n", "t")}
	b, err := c.Bytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":"sagestore checkpoint 1","sha256":"","checkpoint":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCheckpoint(b)
		if err != nil {
			return
		}
		again, err := c.Bytes()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, err := DecodeCheckpoint(again); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzHistoryKey(f *testing.F) {
	f.Add("hist/A/0000000012/0000000003/m/V/0000000009")
	f.Fuzz(func(t *testing.T, key string) {
		k, ok := parseHistory("A", key)
		if ok && k.until < 1e10 && k.since < 1e10 && historyKey("A", k.until, k.since, k.part) != key {
			t.Fatalf("%q reads as %+v", key, k)
		}
	})
}

func TestNewerPortableFormIsNotGuessedAt(t *testing.T) {
	_, err := DecodeCheckpoint([]byte(`{"format":"sagestore checkpoint 2","sha256":"","checkpoint":{}}`))
	isKind(t, err, tiers.ErrSchema)
	_, err = DecodeCheckpoint([]byte(`nonsense`))
	isKind(t, err, tiers.ErrCorrupt)
}

func isKind(t *testing.T, err, want error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want.Error()) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}
