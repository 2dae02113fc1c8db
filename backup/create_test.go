package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestARunThatFailsPublishesNothingAndLeavesNothing(t *testing.T) {
	broken := errors.New("the disk is full")
	at := func(step string) func(r *Repo, b *bucket) {
		return func(r *Repo, _ *bucket) {
			r.step = func(name string) error {
				if name == step {
					return broken
				}
				return nil
			}
		}
	}
	for _, c := range []struct {
		why  string
		harm func(r *Repo, b *bucket)
		want error
	}{
		{"an upload fails", func(_ *Repo, b *bucket) {
			b.put = func(name string) error {
				if strings.Contains(name, "file.tar") {
					return broken
				}
				return nil
			}
		}, broken},
		{"the manifest can't be written", func(_ *Repo, b *bucket) {
			b.put = func(name string) error {
				if strings.HasSuffix(name, manifestObject) {
					return broken
				}
				return nil
			}
		}, broken},
		{"what was written can't be read again", func(_ *Repo, b *bucket) {
			b.get = func(name string) error {
				if strings.Contains(name, "database") {
					return broken
				}
				return nil
			}
		}, broken},
		{"an upload ends early and says that all is well", func(_ *Repo, b *bucket) { b.early = true }, tiers.ErrCorrupt},
		{"no record can be decoded", func(r *Repo, _ *bucket) {
			r.o.Decode = func(context.Context, tiers.Record) error { return broken }
		}, broken},
		{"before the second part", at("write file"), broken},
		{"before it is published", at("publish"), broken},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := newBucket()
			r := mustRepo(t, b, options(t))
			c.harm(r, b)
			s := newStore(t, t.TempDir())
			m, _, err := r.Create(t.Context(), s.source(t))
			if !errors.Is(err, c.want) || m.ID != "" {
				t.Errorf("got %v, %v", m.ID, err)
			}
			if len(b.objects) > 0 {
				t.Errorf("left are %d objects", len(b.objects))
			}
			if left, err := os.ReadDir(r.o.Temp); err != nil || len(left) > 0 {
				t.Errorf("in the temporary place are %v, %v", left, err)
			}
			// The store is not frozen any more: all its places are free.
			for range 4 {
				source := s.source(t)
				defer func() { _ = source.close() }()
			}
		})
	}
}

func TestARunIntoADirectoryThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	r := mustRepo(t, Dir(dir), options(t))
	s := newStore(t, t.TempDir())
	source := s.source(t)
	source.Parts[1].Frozen = failing{source.Parts[1].Frozen}
	if _, _, err := r.Create(t.Context(), source); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// failing is a store whose copy ends early.
type failing struct{ tiers.Frozen }

func (failing) Copy(_ context.Context, w io.Writer) error {
	_, err := w.Write(make([]byte, 100_000))
	return errors.Join(err, syscall.EIO)
}

func TestACancelledRunPublishesNothing(t *testing.T) {
	for _, local := range []bool{true, false} {
		for _, step := range []string{"copy", "verify"} {
			var b Bucket = newBucket()
			dir := t.TempDir()
			if local {
				b = Dir(dir)
			}
			r := mustRepo(t, b, options(t))
			s := newStore(t, t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			source := s.source(t)
			source.Progress = func(p Progress) {
				if p.Step == step {
					cancel()
				}
			}
			if _, _, err := r.Create(ctx, source); !errors.Is(err, context.Canceled) {
				t.Errorf("in %s: %v", step, err)
			}
			cancel()
			left, err := r.objects(t.Context(), "")
			if err != nil || len(left) > 0 || len(entries(t, r)) > 0 {
				t.Errorf("in %s: left are %v, %v", step, left, err)
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
				t.Errorf("in %s: left are %v, %v", step, names, err)
			}
		}
	}
}

func TestWhatAKilledRunLeftGoesWhenItIsOldEnough(t *testing.T) {
	o := options(t)
	clock := tiertest.NewClock(night)
	o.Clock = clock
	dir := t.TempDir()
	r := mustRepo(t, Dir(dir), o)
	s := newStore(t, t.TempDir())
	left := filepath.Join(dir, "20261128T020000Z-00000001")
	future := filepath.Join(dir, "20361128T020000Z-00000001")
	foreign := filepath.Join(dir, "mine", "notes.txt")
	for _, name := range []string{
		filepath.Join(left, "database.sqlite.zst"), filepath.Join(left, dirTemp+"x"), filepath.Join(future, "file.tar.zst"), foreign,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	mustCreate(t, r, s)
	if !there(left) {
		t.Error("a run that may be under way was swept")
	}
	if there(future) {
		t.Error("one with an impossible time was not swept")
	}
	if err := os.Chtimes(filepath.Join(left, dirTemp+"x"), night, night); err != nil {
		t.Fatal(err)
	}
	clock.Advance(48 * time.Hour)
	if err := os.Chtimes(left, night, night); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, r, s)
	if there(left) {
		t.Error("what is two days old was not swept")
	}
	if !there(foreign) || len(entries(t, r)) != 2 {
		t.Error("what is none of ours, or a backup, was swept")
	}
}

func TestProgressIsToldToItsEnd(t *testing.T) {
	r := mustRepo(t, newBucket(), options(t))
	s := newStore(t, t.TempDir())
	source := s.source(t)
	last := map[string]Progress{}
	source.Progress = func(p Progress) { last[p.Step+" "+p.Part] = p }
	m, _, err := r.Create(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"copy database", "verify database", "verify file"} {
		if p := last[step]; p.Done != p.Total || p.Done == 0 {
			t.Errorf("%s ended with %+v of %+v", step, p, m.Parts)
		}
	}
}

// TestTheCopyHoldsWhatWasAcknowledgedBeforeTheCut: and writers go on meanwhile.
func TestTheCopyHoldsWhatWasAcknowledgedBeforeTheCut(t *testing.T) {
	s := newStore(t, t.TempDir())
	r := mustRepo(t, Dir(t.TempDir()), options(t))
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, err := s.db.Save(context.Background(), tiers.Record{
				Key: tiers.Key{Category: "session.events", Name: time.Duration(n).String()}, Codec: "json", Schema: 1, Value: []byte(`1`),
			}, tiers.Cond{})
			if err != nil {
				t.Error(err)
				return
			}
			n++
		}
	}()
	for round := range 3 {
		before, _, err := s.db.Count(t.Context(), tiers.Space{Category: "session.events"})
		if err != nil {
			t.Fatal(err)
		}
		m := mustCreate(t, r, s)
		if got := m.Records()["session.events"]; got < before {
			t.Errorf("round %d: %d were acknowledged before the cut, the backup has %d", round, before, got)
		}
		if m.Held > time.Second {
			t.Errorf("commits were held for %v", m.Held)
		}
	}
	close(stop)
	if n := <-done; n == 0 {
		t.Error("nothing was written meanwhile")
	}
}
