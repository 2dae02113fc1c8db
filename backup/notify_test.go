package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
)

func someNotice(err error) Notice {
	began := time.Date(2026, 11, 28, 3, 30, 0, 0, time.UTC)
	o := Outcome{Attempt: Attempt{Run: began, Try: 2, Began: began}, Ended: began.Add(90 * time.Second), Err: err, Next: began.Add(24 * time.Hour)}
	n := NoticeOf(o, &Manifest{ID: "20261128-033000-ab", Parts: []PartInfo{{Plain: Digest{Bytes: 10}, Stored: Digest{Bytes: 4}}}}, Report{Records: 3})
	n.Host = "h"
	return n
}

func TestANoticeSaysWhatBecameOfTheRun(t *testing.T) {
	for _, c := range []struct {
		why   string
		err   error
		event string
	}{
		{"a good backup", nil, EventSucceeded},
		{"no backup", errors.New("disk full"), EventFailed},
		{"a good backup that nothing was removed for", fmt.Errorf("%w: the clock went back", ErrRefused), EventRefused},
	} {
		n := someNotice(c.err)
		if n.Event != c.event || n.Seconds != 90 || n.Bytes != 10 || n.Stored != 4 || n.Records != 3 || (n.Error == "") != (c.err == nil) {
			t.Errorf("%s: %+v", c.why, n)
		}
	}
}

func TestANoticeNamesNoKey(t *testing.T) {
	key := tiers.Key{Category: "session.preferences", Name: "user-42"}
	decode := tiers.Fail("decode", "", key, fmt.Errorf("%w: %q ends early", tiers.ErrCorrupt, key.Name))
	for _, c := range []struct {
		why  string
		err  error
		want string
	}{
		{"a record", fail("rehearse backup", "b-1", part("database", decode)), "rehearse backup b-1: part database: decode session.preferences: corrupt"},
		{"no record", fail("rehearse backup", "b-1", part("database", tiers.Hint(tiers.ErrFull, "make room"))), "rehearse backup b-1: part database: full (make room)"},
		{"a record, and nothing is removed", fmt.Errorf("%w: %w", ErrRefused, decode), "no backup is removed: decode session.preferences: corrupt"},
	} {
		if got := someNotice(c.err).Error; got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

func TestAWebhookGetsTheNoticeAsJSON(t *testing.T) {
	want := someNotice(errors.New("disk full"))
	var got Notice
	answer := http.StatusNoContent
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.URL.Path != "/secret" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		if answer == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(answer)
	}))
	defer s.Close()
	hook := Webhook(s.URL + "/secret")
	if err := hook(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-sent +got):\n%s", diff)
	}
	for _, answer = range []int{http.StatusInternalServerError, http.StatusFound, http.StatusNotFound} {
		err := hook(t.Context(), want)
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), fmt.Sprint(answer)) {
			t.Errorf("answer %d: %v", answer, err)
		}
	}
}

func TestAWebhookThatCannotBeReachedShowsNoSecret(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		why string
		ctx context.Context
		url string
	}{
		{"nobody listens", t.Context(), strings.Replace(s.URL, "://", "://u:hunter2@", 1) + "/hunter2"},
		{"it is no URL", t.Context(), "http://h/%zzhunter2"},
		{"its time is over", ended, s.URL + "/hunter2"},
	} {
		if err := Webhook(c.url)(c.ctx, Notice{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

// TestAWebhookLeavesTheConnectionsOfTheProgramAlone: it takes none of them, closes none,
// and leaves none behind.
func TestAWebhookLeavesTheConnectionsOfTheProgramAlone(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
	get := func() {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	get()
	hook := Webhook(s.URL)
	for range 2 {
		if err := hook(ctx, Notice{}); err != nil {
			t.Fatal(err)
		}
		if reused {
			t.Error("the webhook was called over a connection that was there")
		}
	}
	get()
	if !reused {
		t.Error("the connection of the program was closed")
	}
}

func TestACommandGetsTheNotice(t *testing.T) {
	dir := t.TempDir()
	want := someNotice(errors.New("disk $(full)"))
	out := filepath.Join(dir, "out")
	for why, command := range map[string][]string{
		"a line for the shell":        {`{ echo "$SAGESTORE_EVENT $SAGESTORE_BACKUP $SAGESTORE_TRY $SAGESTORE_ERROR"; cat; } >` + out},
		"a program and its arguments": {"/bin/sh", "-c", `{ echo "$SAGESTORE_EVENT $SAGESTORE_BACKUP $SAGESTORE_TRY $SAGESTORE_ERROR"; cat; } >"$0"`, out},
	} {
		if err := Command(command)(t.Context(), want); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		line, body, _ := strings.Cut(string(b), "\n")
		if line != "backup_failed 20261128-033000-ab 2 disk $(full)" {
			t.Errorf("%s: the variables are %q", why, line)
		}
		var got Notice
		if err := json.Unmarshal([]byte(body), &got); err != nil || got != want {
			t.Errorf("%s: %v %+v", why, err, got)
		}
	}
}

func TestACommandThatFailsOrHangsIsAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		why     string
		ctx     context.Context
		command []string
	}{
		{"it fails", t.Context(), []string{"exit 3"}},
		{"it is not there", t.Context(), []string{"/nonexistent", "x"}},
		{"none is named", t.Context(), nil},
		{"it hangs", ctx, []string{"/bin/sleep", "60"}},
	} {
		if err := Command(c.command)(c.ctx, Notice{}); err == nil {
			t.Errorf("%s: no error", c.why)
		}
	}
}

func ExampleWebhook() {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Println(strings.Contains(string(b), EventSucceeded))
	}))
	defer s.Close()
	if err := Webhook(s.URL)(context.Background(), Notice{Event: EventSucceeded}); err != nil {
		fmt.Println(err)
	}
	// Output: true
}
