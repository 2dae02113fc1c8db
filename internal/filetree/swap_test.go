package filetree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/tiers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noForm keeps nothing; these tests work on files.
type noForm struct{ Form }

func (noForm) Attach(*os.Root) {}

func openTree(t *testing.T, dir string, change func(*Config)) *Tree {
	t.Helper()
	c := Config{Dir: dir, Name: "test", Durable: true, Form: noForm{}}
	if change != nil {
		change(&c)
	}
	tree, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tree
}

func TestAnEditThatSlipsInIsKeptBeside(t *testing.T) {
	in := func(path string) { must(t, os.WriteFile(path, []byte("edited"), 0o600)) }
	over := func(path string) {
		must(t, os.WriteFile(path+".new", []byte("edited"), 0o600))
		must(t, os.Rename(path+".new", path))
	}
	for _, c := range []struct {
		why  string
		edit func(path string) // between the look and the swap
		want map[string]string // the directory afterwards; the version in names is left out
		err  error
	}{
		{"nobody edits", func(string) {}, map[string]string{"k": "saved"}, nil},
		{"an editor writes into the file", in, map[string]string{"k": "saved", "k.edited-": "edited"}, nil},
		{"an editor puts a new file in its place", over, map[string]string{"k": "saved", "k.edited-": "edited"}, nil},
		{"somebody removes it", func(path string) { must(t, os.Remove(path)) }, map[string]string{}, errMoved},
	} {
		t.Run(c.why, func(t *testing.T) {
			base := t.TempDir()
			path := filepath.Join(base, "k")
			must(t, os.WriteFile(path, []byte("before"), 0o600))
			d := dirOf(t, openTree(t, base, nil))
			old, ok, err := d.Stat("k")
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			st, err := d.Stage([]byte("saved"), tiers.SystemClock().Now())
			must(t, err)
			defer st.Discard()
			must(t, d.Flush(st))
			c.edit(path)
			if err := d.Swap(st, "k", &old); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			st.Discard()
			wantFiles(t, base, c.want)
		})
	}
}

func TestAFileThatSlipsInWhereNoneWasIsLookedAtAgain(t *testing.T) {
	base := t.TempDir()
	d := dirOf(t, openTree(t, base, nil))
	st, err := d.Stage([]byte("saved"), tiers.SystemClock().Now())
	must(t, err)
	must(t, d.Flush(st))
	must(t, os.WriteFile(filepath.Join(base, "k"), []byte("dropped in"), 0o600))
	if err := d.Swap(st, "k", nil); !errors.Is(err, errMoved) {
		t.Errorf("%v, want that the caller looks again", err)
	}
	st.Discard()
	wantFiles(t, base, map[string]string{"k": "dropped in"})
}

func TestAnEditOfARetiredFileIsKept(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "k")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	d := dirOf(t, openTree(t, base, nil))
	old, _, err := d.Stat("k")
	must(t, err)
	must(t, os.WriteFile(path, []byte("edited"), 0o600))
	must(t, d.Retire(old))
	wantFiles(t, base, map[string]string{"k.edited-": "edited"})
}

func dirOf(t *testing.T, tree *Tree) *Dir {
	t.Helper()
	d, err := tree.openDir("")
	must(t, err)
	t.Cleanup(func() { must(t, d.close()) })
	return d
}

func wantFiles(t *testing.T, base string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(base)
	must(t, err)
	got := map[string]string{}
	for _, e := range entries {
		name := e.Name()
		if name == lockDir {
			continue
		}
		if i := strings.Index(name, edited); i >= 0 {
			name = name[:i+len(edited)]
		}
		b, err := os.ReadFile(filepath.Join(base, e.Name()))
		must(t, err)
		got[name] = string(b)
	}
	if len(got) != len(want) {
		t.Errorf("the directory holds %v, want %v", got, want)
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s holds %q, want %q", name, got[name], content)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsFollowedOutOfTheTree(t *testing.T) {
	outside := t.TempDir()
	base := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(base, "c")))
	must(t, os.Symlink("../"+filepath.Base(outside), filepath.Join(base, "rel")))
	tree := openTree(t, base, nil)
	for _, category := range []string{"c", "rel"} {
		_, err := tree.Save(t.Context(), tiers.Record{Key: tiers.Key{Category: category, Name: "k"}}, tiers.Cond{})
		if !errors.Is(err, tiers.ErrUnsupported) || !strings.Contains(err.Error(), "link") {
			t.Errorf("a save through a link that leads out: %v", err)
		}
		if _, err := tree.Load(t.Context(), tiers.Key{Category: category, Name: "k"}); !errors.Is(err, tiers.ErrUnsupported) {
			t.Errorf("a load through a link that leads out: %v", err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside there is %v %v", entries, err)
	}
}

// Sweeping takes the stripe's lock, which a save that prepares early does not
// hold yet.
func TestASaveWhosePreparedFileWasSweptBeginsAgain(t *testing.T) {
	for what, step := range map[string]func(d *Dir, st *Staged) error{
		"when it is looked at":         func(_ *Dir, st *Staged) error { _, err := st.Ident(); return err },
		"when its times are looked at": func(d *Dir, st *Staged) error { return d.checkTimes(st.name, time.UnixMicro(1_700_000_000_000_001)) },
		"when it gets a new name":      func(d *Dir, st *Staged) error { return d.Swap(st, "k", nil) },
		"when it replaces a file":      func(d *Dir, st *Staged) error { return d.Replace(st, "k") },
	} {
		t.Run(what, func(t *testing.T) {
			base := t.TempDir()
			tree := openTree(t, base, nil)
			d := dirOf(t, tree)
			st, err := d.Stage([]byte("saved"), time.UnixMicro(1_700_000_000_000_000))
			must(t, err)
			defer st.Discard()
			must(t, d.Flush(st))
			must(t, os.Remove(filepath.Join(base, st.name)))
			tree.exact.Store(false)
			if err := step(d, st); !errors.Is(err, errMoved) {
				t.Errorf("%v, want that the save begins again", err)
			}
		})
	}
}
