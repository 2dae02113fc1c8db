package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
)

func reserve(t *testing.T, tier *file.Tier, name string) tiers.Reservation {
	t.Helper()
	out, err := tier.Reserve(t.Context(), []tiers.Key{key(name)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func TestReserveSeesHandEdits(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	saved := save(t, tier, plain("settings", `1`))
	path := filepath.Join(dir, "config", "settings.json")
	edit(t, path, "2")
	edited := load(t, tier, "settings")
	got := reserve(t, tier, "settings")
	if got.Version != edited.Version || !got.Created.Equal(edited.Created) || got.Next <= edited.Version {
		t.Errorf("reserved %+v; load answers version %d, created %v", got, edited.Version, edited.Created)
	}
	if after := save(t, tier, plain("settings", `3`)); after.Version <= got.Next || got.Next <= saved.Version {
		t.Errorf("reserved %d between %d and %d", got.Next, saved.Version, after.Version)
	}
	edit(t, filepath.Join(dir, "config", "dropped.json"), "1")
	if got, want := reserve(t, tier, "dropped"), load(t, tier, "dropped"); got.Version != want.Version {
		t.Errorf("a file that was dropped in has version %d, reserved is over %d", want.Version, got.Version)
	}
	edit(t, path, "{broken")
	at, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := reserve(t, tier, "settings"); got.Version != tiers.Version(at.ModTime().UnixMicro()) || got.Next <= got.Version {
		t.Errorf("reserved %+v over a file of %d that can't be read", got, at.ModTime().UnixMicro())
	}
}

// TestAWrongTimeDoesNotCarryOthersAlong is about a file that somebody gave a time
// in the far future.
func TestAWrongTimeDoesNotCarryOthersAlong(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("k", `1`))
	far := tiers.SystemClock().Now().AddDate(10, 0, 0)
	if err := os.Chtimes(filepath.Join(dir, "config", "k.json"), far, far); err != nil {
		t.Fatal(err)
	}
	got := reserve(t, tier, "k")
	if got.Next <= got.Version || got.Version != tiers.Version(far.UnixMicro()) {
		t.Errorf("reserved %+v over a time of %d", got, far.UnixMicro())
	}
	others := func(when string) {
		t.Helper()
		limit := tiers.Version(tiers.SystemClock().Now().Add(time.Hour).UnixMicro())
		if other := reserve(t, tier, "other"); other.Next > limit {
			t.Errorf("%s another key got %d, which is far ahead of the clock", when, other.Next)
		}
	}
	others("after the reservation")
	r := plain("k", `2`)
	r.Version = got.Next
	if err := tier.Apply(t.Context(), []tiers.Record{r}, []tiers.Cond{{}}); err != nil {
		t.Fatal(err)
	}
	others("after the change")
	if now := reserve(t, tier, "k"); now.Version != r.Version {
		t.Errorf("version %d became %d", r.Version, now.Version)
	}
}

// TestADecidedChangeGivesWayToAHandEdit covers an edit that was made after the
// version was reserved.
func TestADecidedChangeGivesWayToAHandEdit(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("k", `1`))
	from := reserve(t, tier, "k")
	path := filepath.Join(dir, "config", "k.json")
	for _, text := range []string{"2", "{broken"} {
		edit(t, path, text)
		for _, deleted := range []bool{false, true} {
			r := plain("k", `3`)
			r.Version, r.Deleted = from.Next, deleted
			if err := tier.Apply(t.Context(), []tiers.Record{r}, []tiers.Cond{tiers.If(from.Version)}); err != nil {
				t.Fatal(err)
			}
			if got := read(t, path); got != text {
				t.Errorf("the edit %q became %q", text, got)
			}
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	tier, err := file.Open(b.Context(), file.Config{BasePath: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer tier.Close(b.Context()) //nolint:errcheck // a benchmark
	keys := make([]tiers.Key, 100)
	rs := make([]tiers.Record, len(keys))
	for i := range keys {
		rs[i] = plain(fmt.Sprintf("k%03d", i), `{"a":1}`)
		keys[i] = rs[i].Key
	}
	if _, err := tier.SaveMany(b.Context(), rs, nil); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := tier.Reserve(b.Context(), keys[:n], 0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/key")
		})
	}
}

// BenchmarkApply compares with what is written down everywhere for a durable
// file: write a temp file, fsync, rename, fsync the directory.
func BenchmarkApply(b *testing.B) {
	const n = 100
	value := fmt.Appendf(nil, `{"text":%q}`, make([]byte, 150))
	b.Run("raw", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			for i := range n {
				if err := textbook(dir, fmt.Sprintf("k%03d.json", i), value); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("tier", func(b *testing.B) {
		tier, err := file.Open(b.Context(), file.Config{BasePath: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		defer tier.Close(b.Context()) //nolint:errcheck // a benchmark
		rs := make([]tiers.Record, n)
		keys := make([]tiers.Key, n)
		over := make([]tiers.Cond, n)
		for i := range rs {
			rs[i] = plain(fmt.Sprintf("k%03d", i), string(value))
			keys[i] = rs[i].Key
		}
		for b.Loop() {
			from, err := tier.Reserve(b.Context(), keys, 0)
			if err != nil {
				b.Fatal(err)
			}
			for i := range rs {
				rs[i].Version, rs[i].Created, over[i] = from[i].Next, from[i].Created, tiers.If(from[i].Version)
			}
			if err := tier.Apply(b.Context(), rs, over); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func textbook(dir, name string, content []byte) error {
	f, err := os.CreateTemp(dir, "tmp-*")
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // was only read
	return d.Sync()
}
