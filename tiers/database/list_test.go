package database

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

func TestPlainJSONCanBeQueriedByField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	blob := tiers.Record{Key: key("u2"), Codec: "json", Schema: 1, Flags: tiers.Enveloped, Value: []byte(`{"theme":"light"}`)}
	for _, r := range []tiers.Record{plainJSON("u1", `{"theme":"dark"}`), blob, {Key: key("u3"), Codec: "raw", Value: []byte{0, 0xff}}} {
		if _, err := tier.Save(t.Context(), r, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	var name, theme string
	err := rawDB(t, path).QueryRow(`SELECT key, json_extract(value, '$.theme') FROM records WHERE typeof(value) = 'text'`).Scan(&name, &theme)
	if err != nil || name != "u1" || theme != "dark" {
		t.Fatalf("%s has theme %q, %v", name, theme, err)
	}
}

func TestACorruptRowAmongOthersIsNamedAndTheRestIsThere(t *testing.T) {
	for _, c := range []struct{ name, damage string }{
		{"a value of another type", `UPDATE records SET value = 5 WHERE key = 'k-0200'`},
		{"an impossible version", `UPDATE records SET version = -1 WHERE key = 'k-0200'`},
		{"impossible flags", `UPDATE records SET flags = -1 WHERE key = 'k-0200'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sage.db")
			tier := mustOpen(t, Config{Path: path})
			var rs []tiers.Record
			var ks []tiers.Key
			for i := range 400 {
				rs = append(rs, plainJSON(fmt.Sprintf("k-%04d", i), fmt.Sprint(i)))
				ks = append(ks, rs[i].Key)
			}
			if _, err := tier.SaveMany(t.Context(), rs, nil); err != nil {
				t.Fatal(err)
			}
			execRaw(t, rawDB(t, path), c.damage)

			good, bad := 0, ""
			for r, err := range tier.List(t.Context(), tiers.Query{Category: ks[0].Category}) {
				switch {
				case err == nil:
					good++
				case errors.Is(err, tiers.ErrCorrupt) && bad == "":
					bad = r.Name
				default:
					t.Fatalf("%q: %v", r.Name, err)
				}
			}
			if good != 399 || bad != "k-0200" {
				t.Errorf("the list has %d records and names %q", good, bad)
			}
			loaded, err := tier.LoadMany(t.Context(), ks)
			if !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), "k-0200") || strings.Contains(err.Error(), "k-0199") {
				t.Errorf("LoadMany says %v", err)
			}
			if loaded[199].Version == 0 || loaded[200].Version != 0 || loaded[201].Version == 0 {
				t.Error("LoadMany does not answer the others")
			}
			if _, err := tier.Load(t.Context(), key("k-0200")); !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), "k-0200") {
				t.Errorf("Load says %v", err)
			}
			if _, err := tier.Save(t.Context(), plainJSON("k-0200", `1`), tiers.Cond{}); err != nil {
				t.Errorf("it can't be saved anew: %v", err)
			}
		})
	}
}

func TestALongListDoesNotLetTheLogGrow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path, Synchronous: Normal})
	var rs []tiers.Record
	for i := range 600 {
		rs = append(rs, plainJSON(fmt.Sprintf("k-%04d", i), `"`+strings.Repeat("x", 1000)+`"`))
	}
	if _, err := tier.SaveMany(t.Context(), rs, nil); err != nil {
		t.Fatal(err)
	}
	n, largest := 0, int64(0)
	for _, err := range tier.List(t.Context(), tiers.Query{Category: rs[0].Category}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 2 {
			continue
		}
		// The list is open all the while: 72 MB go by. Of a value that stays as it was
		// only the first page would be written.
		for i := range 300 {
			value := bytes.Repeat([]byte{byte(n + i)}, 120_000)
			if _, err := tier.Save(t.Context(), tiers.Record{Key: key(fmt.Sprint("other-", i%10)), Codec: "raw", Value: value}, tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(path + "-wal"); err == nil {
				largest = max(largest, st.Size())
			}
		}
	}
	if n < 600 {
		t.Errorf("the list has %d records", n)
	}
	if largest > 48<<20 {
		t.Errorf("the log grew to %d MiB", largest>>20)
	}
	t.Logf("the log grew to %.1f MiB", float64(largest)/(1<<20))
}

func TestBoundsOfAQuery(t *testing.T) {
	for _, c := range []struct {
		q         tiers.Query
		low, high string
	}{
		{tiers.Query{}, "", beyond},
		{tiers.Query{Prefix: "a%_*"}, "a%_*", "a%_+"},
		{tiers.Query{Prefix: "\x7f"}, "\x7f", "\x80"},
		{tiers.Query{Prefix: "a\xff"}, "a\xff", "b"},
		{tiers.Query{After: "k"}, "k\x00", beyond},
		{tiers.Query{Prefix: "b", After: "a"}, "b", "c"},
		{tiers.Query{Prefix: "b", After: "bx"}, "bx\x00", "c"},
		{tiers.Query{After: "k", Reverse: true}, "", "k"},
		{tiers.Query{Prefix: "b", After: "z", Reverse: true}, "b", "c"},
		{tiers.Query{Prefix: "b", After: "bx", Reverse: true}, "b", "bx"},
	} {
		if low, high := bounds(c.q); low != c.low || high != c.high {
			t.Errorf("%+v: from %q to %q, want %q to %q", c.q, low, high, c.low, c.high)
		}
	}
}

func TestSweepRemovesInChunksUpToItsLimit(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	var rs []tiers.Record
	for i := range 1300 {
		r := plainJSON(fmt.Sprint(i), `1`)
		r.Created, r.Updated, r.Version = tiers.FromMicro(1), tiers.FromMicro(1), tiers.Version(i+1)
		r.Expires = tiers.FromMicro(1 << 52)
		rs = append(rs, r)
	}
	if err := tier.Apply(t.Context(), rs, nil); err != nil {
		t.Fatal(err)
	}
	err := tier.writer.do(t.Context(), &job{run: func(tx *tx) error {
		_, err := tx.exec("UPDATE records SET expires = 5 WHERE CAST(key AS INTEGER) < 1250")
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{700, 550, 0} {
		if n, err := tier.Sweep(t.Context(), 700); err != nil || n != want {
			t.Errorf("sweep %d removes %d, %v; want %d", i, n, err, want)
		}
	}
	if n, _, err := tier.Count(t.Context(), rs[0].Space()); err != nil || n != 50 {
		t.Errorf("%d are left, %v", n, err)
	}
	if s, err := tier.Stats(t.Context()); err != nil || s.Expired != 1250 || s.Entries != 50 {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzUnpackMeta(f *testing.F) {
	f.Add("1 2 3 4 5 6 json")
	f.Add("9223372036854775807 -1 0 0 4294967295 255 ")
	f.Fuzz(func(t *testing.T, text string) {
		var r tiers.Record
		if err := unpackMeta(text, &r); err != nil {
			if !errors.Is(err, tiers.ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		if r.Version == 0 {
			t.Error("a record of version 0")
		}
	})
}
