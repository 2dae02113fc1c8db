package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
)

// held is what a tree holds, by space and key, in words.
type held map[string]string

func (h held) add(r tiers.Record) {
	h[r.Namespace+" "+r.Category+" "+r.Name] = fmt.Sprintf("%s %d %s %d %v %v", r.Value, r.Version, r.Codec, r.Schema, r.Created, r.Expires)
}

// heldBy reads all of a tree. It takes no locks.
func heldBy(ctx context.Context, tier tiers.Tier) (held, error) {
	all := held{}
	for s, err := range tier.Spaces(ctx) {
		if err != nil {
			return nil, err
		}
		for r, err := range tier.List(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category}) {
			if err != nil {
				return nil, err
			}
			all.add(r)
		}
	}
	return all, nil
}

// opened copies a frozen tree, unpacks the copy and opens it.
func opened(tb testing.TB, f tiers.Frozen, dir string) (tiers.Copy, tiers.Content) {
	tb.Helper()
	ctx := context.Background()
	var b bytes.Buffer
	if err := f.Copy(ctx, &b); err != nil {
		tb.Fatal(err)
	}
	said, err := f.Content(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if _, err := archive.Unpack(ctx, &b, root, archive.Limits{Files: said.Rows["files"], Bytes: said.Rows["bytes"]}); err != nil {
		tb.Fatal(err)
	}
	c, err := file.Copies().OpenCopy(ctx, dir)
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Check(ctx); err != nil {
		tb.Fatal(err)
	}
	got, err := c.Content(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	said.Held, said.Edited, said.LeftOut = 0, nil, nil
	if d := cmp.Diff(said, got); d != "" {
		tb.Fatalf("the copy does not hold what the frozen tree said: %s", d)
	}
	return c, got
}

// heldByCopy reads all of a copy.
func heldByCopy(tb testing.TB, f tiers.Frozen, dir string) held {
	tb.Helper()
	c, content := opened(tb, f, dir)
	all := held{}
	for _, n := range content.Records {
		var counted int64
		for r, err := range c.Records(context.Background(), n.Space) {
			if err != nil {
				tb.Fatal(err)
			}
			all.add(r)
			counted++
		}
		if counted != n.Records {
			tb.Fatalf("%v has %d records, %d are counted", n.Space, counted, n.Records)
		}
	}
	if err := errors.Join(c.Close(), os.RemoveAll(dir)); err != nil {
		tb.Fatal(err)
	}
	return all
}

func noSnapshot(tb testing.TB, dir string) {
	tb.Helper()
	if _, err := os.Lstat(filepath.Join(dir, ".snapshot")); !errors.Is(err, os.ErrNotExist) {
		tb.Errorf("a snapshot is left: %v", err)
	}
}

// The race detector judges it.
func TestAFreezeWhoseContextEndsMeanwhileIsClosedOnce(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	for range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		f, err := tier.Freeze(ctx, func(context.Context) error {
			cancel()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		noSnapshot(t, dir)
	}
}

// TestASnapshotIsRemovedUnderWritersThatAreLate lets files come into the directory of
// a snapshot after it has lost its name, as from whoever had opened it before.
func TestASnapshotIsRemovedUnderWritersThatAreLate(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		tier := open(t, dir)
		f, err := tier.Freeze(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(dir, ".snapshot", "[0-9a-f]*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("the snapshots are %q, %v", found, err)
		}
		opened, err := os.OpenRoot(found[0])
		if err != nil {
			t.Fatal(err)
		}
		begun := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			close(begun)
			for i := range 200 {
				if err := opened.WriteFile(fmt.Sprint("late-", i), nil, 0o600); err != nil {
					return // it is gone
				}
			}
		})
		<-begun
		err = f.Close()
		wg.Wait()
		if err := errors.Join(err, opened.Close()); err != nil {
			t.Fatal(err)
		}
		noSnapshot(t, dir)
	}
}

// TestACopyIsTheInstantOfItsFreeze lets random changes follow a freeze, with up to
// three snapshots at once that are copied at any time.
func TestACopyIsTheInstantOfItsFreeze(t *testing.T) {
	memory(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "") //nolint:usetesting // one for each try, and removed after it
		if err != nil {
			rt.Fatal(err)
		}
		base := filepath.Join(dir, "tree")
		ctx := context.Background()
		tier, err := file.Open(ctx, file.Config{BasePath: base})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = errors.Join(tier.Close(ctx), os.RemoveAll(dir)) }()
		type snapshot struct {
			f    tiers.Frozen
			want held
		}
		var all []snapshot
		copied := 0
		end := func(i int, whole bool) {
			if whole {
				copied++
				if d := cmp.Diff(all[i].want, heldByCopy(t, all[i].f, filepath.Join(dir, strconv.Itoa(copied)))); d != "" {
					rt.Fatal(d)
				}
			}
			if err := all[i].f.Close(); err != nil {
				rt.Fatal(err)
			}
			all = slices.Delete(all, i, i+1)
		}
		names := rapid.SampledFrom([]string{"a", "b", "deep/er/a", "deep/er/b", "deep/c", "Ü"})
		k := rapid.Custom(func(t *rapid.T) tiers.Key {
			return tiers.Key{
				Namespace: rapid.SampledFrom([]string{"", "n"}).Draw(t, "namespace"),
				Category:  rapid.SampledFrom([]string{"config", "notes.x"}).Draw(t, "category"), Name: names.Draw(t, "name"),
			}
		})
		rt.Repeat(map[string]func(*rapid.T){
			"save": func(t *rapid.T) {
				r := tiers.Record{Key: k.Draw(t, "key"), Codec: rapid.SampledFrom([]string{"json", "json", "raw", "own"}).Draw(t, "codec"), Schema: 1}
				r.Value = fmt.Appendf(nil, `{"n":%d}`, rapid.IntRange(0, 999).Draw(t, "n"))
				r.TTL = rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(t, "ttl")
				if _, err := tier.Save(ctx, r, tiers.Cond{}); err != nil {
					t.Fatal(err)
				}
			},
			"delete": func(t *rapid.T) {
				if _, err := tier.Delete(ctx, k.Draw(t, "key"), tiers.Cond{}); err != nil {
					t.Fatal(err)
				}
			},
			"touch": func(t *rapid.T) {
				if _, err := tier.Touch(ctx, k.Draw(t, "key"), time.Duration(rapid.IntRange(1, 9).Draw(t, "hours"))*time.Hour); err != nil {
					t.Fatal(err)
				}
			},
			"apply": func(t *rapid.T) {
				r := tiers.Record{Key: k.Draw(t, "key"), Codec: "json", Schema: 1, Value: []byte(`"applied"`), Deleted: rapid.Bool().Draw(t, "deleted")}
				r.Version = tiers.Version(tiers.SystemClock().Now().UnixMicro() + rapid.Int64Range(-5, 5).Draw(t, "version"))
				if err := tier.Apply(ctx, []tiers.Record{r}, nil); err != nil {
					t.Fatal(err)
				}
			},
			"sweep": func(t *rapid.T) {
				if _, err := tier.Sweep(ctx, 100); err != nil {
					t.Fatal(err)
				}
			},
			"freeze": func(t *rapid.T) {
				if len(all) == 3 {
					t.Skip()
				}
				var s snapshot
				var err error
				s.f, err = tier.Freeze(ctx, func(ctx context.Context) (err error) {
					s.want, err = heldBy(ctx, tier)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s)
			},
			"copy": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip()
				}
				end(rapid.IntRange(0, len(all)-1).Draw(t, "snapshot"), rapid.IntRange(0, 4).Draw(t, "whole") > 0)
			},
		})
		for len(all) > 0 {
			end(0, true)
		}
		noSnapshot(t, base)
	})
}

// memory runs a test that waits for many fsyncs in memory, where that is possible.
func memory(t *testing.T) {
	t.Helper()
	const dir = "/dev/shm"
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		t.Setenv("TMPDIR", dir)
	}
}

func TestWhatPeopleDoWhileTheyAreCopiedIsCopiedAsFoundAndTold(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	for _, name := range []string{"edited", "edited then saved", "removed", "stays"} {
		save(t, tier, plain(name, `"before"`))
	}
	config := filepath.Join(dir, "config")
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(config, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("broken.json", "{")
	put("notes.txt", "mine")
	if err := errors.Join(os.Symlink("stays.json", filepath.Join(config, "link.json")), os.Mkdir(filepath.Join(dir, ".git"), 0o700)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // a file system's clock has ticked
	f, err := tier.Freeze(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	time.Sleep(20 * time.Millisecond)
	put("edited.json", `"by hand"`)
	put("edited%20then%20saved.json", `"by hand"`)
	save(t, tier, plain("edited then saved", `"later"`))
	save(t, tier, plain("stays", `"later"`))
	if err := os.Remove(filepath.Join(config, "removed.json")); err != nil {
		t.Fatal(err)
	}
	put("new.json", `"by hand"`)
	c, content := opened(t, f, filepath.Join(t.TempDir(), "copy"))
	defer func() { _ = c.Close() }()
	got := map[string]string{}
	for r, err := range c.Records(t.Context(), tiers.Space{Category: "config"}) {
		got[r.Name] = string(r.Value)
		if err != nil {
			got[r.Name] = "unreadable"
		}
	}
	want := map[string]string{
		"edited": `"by hand"`, "edited then saved": `"by hand"`, "stays": `"before"`, "new": `"by hand"`, "broken": "unreadable", "notes.txt": "unreadable",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	said, err := f.Content(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, d := range map[string]string{
		"edited":   cmp.Diff([]string{"config/edited%20then%20saved.json", "config/edited.json", "config/new.json"}, said.Edited),
		"left out": cmp.Diff([]string{".git", "config/link.json"}, said.LeftOut),
		"damaged":  cmp.Diff([]string{"config/broken.json"}, content.Damaged),
	} {
		if d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	if content.Rows["damaged"] != 1 {
		t.Errorf("counted are %v", content.Rows)
	}
}

// TestASaveDoesNotFailForTheSakeOfACopy: it is the copy that fails.
func TestASaveDoesNotFailForTheSakeOfACopy(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("k", "1"))
	f, err := tier.Freeze(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	was, err := filepath.Glob(filepath.Join(dir, ".snapshot", "*", "was"))
	if err != nil || len(was) != 1 {
		t.Fatal(was, err)
	}
	// A file is in the way, and nothing can be kept.
	if err := errors.Join(os.Remove(was[0]), os.WriteFile(was[0], nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	save(t, tier, plain("k", "2"))
	if err := f.Copy(t.Context(), &bytes.Buffer{}); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("the copy: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	noSnapshot(t, dir)
}

func TestAFreezeThatFailsHoldsNobodyAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("k", "1"))
	broken := errors.New("broken")
	if _, err := tier.Freeze(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	noSnapshot(t, dir)
	save(t, tier, plain("k", "2"))
	ctx, cancel := context.WithCancel(t.Context())
	f, err := tier.Freeze(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for tries := 0; ; tries++ {
		if _, err := os.Lstat(filepath.Join(dir, ".snapshot")); errors.Is(err, os.ErrNotExist) {
			break
		}
		if tries > 5000 {
			t.Fatal("the snapshot outlives its context")
		}
		time.Sleep(time.Millisecond)
	}
	if err := f.Copy(t.Context(), &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a copy afterwards: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestATreeThatIsOpenCannotBeSeizedAndASeizedOneNotOpened(t *testing.T) {
	dir := t.TempDir()
	tier, err := file.Open(t.Context(), file.Config{BasePath: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Copies().Seize(t.Context(), dir); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("seized while it is open: %v", err)
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release, err := file.Copies().Seize(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Open(t.Context(), file.Config{BasePath: dir}); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("opened while it is seized: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}
