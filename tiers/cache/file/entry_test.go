package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/file"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func open(tb testing.TB, dir string, clock tiers.Clock) *file.Tier {
	tb.Helper()
	tier, err := file.Open(tb.Context(), file.Config{Path: dir, Clock: clock})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := tier.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return tier
}

func entry(name string, ttl time.Duration) tiers.Record {
	return tiers.Record{
		Key: tiers.Key{Category: "session.history", Name: name}, Value: []byte("value"), Codec: "json", Schema: 4,
		Flags: tiers.Compressed, TTL: ttl,
	}
}

func save(tb testing.TB, tier tiers.Tier, r tiers.Record) tiers.Record {
	tb.Helper()
	saved, err := tier.Save(tb.Context(), r, tiers.Cond{})
	if err != nil {
		tb.Fatal(err)
	}
	return saved
}

func TestAnEntryIsOneFileAndTheTimeOfItsEnd(t *testing.T) {
	dir := t.TempDir()
	clock := tiertest.NewClock(time.Date(2030, 1, 2, 3, 4, 5, 678_000, time.UTC))
	tier := open(t, dir, clock)
	want := save(t, tier, entry("a/b", time.Hour))
	path := filepath.Join(dir, "session.history", "a", "b.entry")
	fi, err := os.Stat(path)
	if err != nil || !fi.ModTime().Equal(want.Expires) || fi.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v, want the time %v and mode 0600", fi, err, want.Expires)
	}
	got, err := tier.Load(t.Context(), want.Key)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := tier.Touch(t.Context(), want.Key, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	if fi, err = os.Stat(path); err != nil || fi.ModTime().Sub(want.Expires) != time.Hour {
		t.Errorf("touched: %v %v", fi.ModTime(), err)
	}
	clock.Advance(3 * time.Hour)
	if n, err := tier.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("sweep: %d %v", n, err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty directory is still there: %v", err)
	}
}

func TestDamageIsSaidAndASaveMendsIt(t *testing.T) {
	for _, c := range []struct {
		why    string
		damage func(b []byte) []byte
		want   error
	}{
		{"a flipped bit in the value", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, tiers.ErrCorrupt},
		{"a flipped bit in the header", func(b []byte) []byte { b[20] ^= 1; return b }, tiers.ErrCorrupt},
		{"a value that was cut", func(b []byte) []byte { return b[:len(b)-2] }, tiers.ErrCorrupt},
		{"a value that goes on", func(b []byte) []byte { return append(b, 'x') }, tiers.ErrCorrupt},
		{"a header that was cut", func(b []byte) []byte { return b[:50] }, tiers.ErrCorrupt},
		{"a power cut before anything was written", func([]byte) []byte { return nil }, tiers.ErrNotFound},
		{"a power cut that left zeros", func(b []byte) []byte { clear(b); return b }, tiers.ErrNotFound},
	} {
		t.Run(c.why, func(t *testing.T) {
			dir := t.TempDir()
			tier := open(t, dir, nil)
			r := save(t, tier, entry("k", 0))
			path := filepath.Join(dir, "session.history", "k.entry")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = tier.Load(t.Context(), r.Key)
			if !errors.Is(err, c.want) || c.want == tiers.ErrCorrupt && !strings.Contains(err.Error(), path) { //nolint:errorlint // the table's own value
				t.Errorf("%v, want %v", err, c.want)
			}
			again := save(t, tier, entry("k", 0))
			if got, err := tier.Load(t.Context(), r.Key); err != nil || got.Version != again.Version || again.Version <= r.Version {
				t.Errorf("saved again: %+v %v", got, err)
			}
		})
	}
}

func TestALongCodecNameIsRefused(t *testing.T) {
	r := entry("k", 0)
	r.Codec = strings.Repeat("c", 71)
	if _, err := open(t, t.TempDir(), nil).Save(t.Context(), r, tiers.Cond{}); !errors.Is(err, tiers.ErrCodec) {
		t.Errorf("%v, want a codec error", err)
	}
}

func FuzzNoFileBreaksALoad(f *testing.F) {
	dir := f.TempDir()
	tier := open(f, dir, nil)
	r := save(f, tier, entry("k", 0))
	path := filepath.Join(dir, "session.history", "k.entry")
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Add(b[:128])
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := tier.Load(t.Context(), r.Key)
		if err == nil && len(got.Value) != len(content)-128 {
			t.Errorf("a file of %d bytes gives a value of %d", len(content), len(got.Value))
		}
		if err != nil && !errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, tiers.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "sagestore-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	t, err := file.Open(ctx, file.Config{Path: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	k := tiers.Key{Category: "session.history", Name: "q-1"}
	_, err = t.Save(ctx, tiers.Record{Key: k, Value: []byte("answer"), Codec: "raw", Schema: 1, TTL: time.Hour}, tiers.Cond{})
	if err == nil {
		var r tiers.Record
		r, err = t.Load(ctx, k)
		fmt.Printf("%s, for %v\n", r.Value, r.Expires.Sub(r.Updated).Round(time.Minute))
	}
	if err := errors.Join(err, t.Close(ctx)); err != nil {
		fmt.Println(err)
	}
	// Output: answer, for 1h0m0s
}

func ExampleDriver() {
	d := file.Driver()
	fmt.Println(d.Tier, d.Name)
	// Output: cache file
}
