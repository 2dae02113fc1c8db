package tiertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/tiers"
)

// RunFreezer is the suite of [tiers.Freezer], and of the [tiers.Copies] that read what
// it writes. place answers the path, as Copies are given it, of the store that a
// directory of the suite stands for; nil for one on a server, which loads its copies,
// see [tiers.Loader].
func RunFreezer(t *testing.T, c Config, copies tiers.Copies, place func(dir string) string) {
	t.Helper()
	runGroups(t, c, freezerGroups(copies, place))
}

func freezerGroups(copies tiers.Copies, place func(dir string) string) []group {
	with := func(run func(f *freezing)) func(t *T) {
		return func(t *T) {
			freezer, ok := tiers.As[tiers.Freezer](t.Tier)
			if !ok {
				t.Fatalf("the tier can't be frozen")
			}
			f := &freezing{T: t, freezer: freezer, copies: copies}
			if place != nil {
				f.place = place(t.dir)
			}
			run(f)
		}
	}
	return []group{{"freezing", []rule{
		{
			name: "a copy is the instant of its freeze",
			why:  "a backup is worth nothing if it holds half of what was saved together",
			run:  with((*freezing).instant),
		},
		{
			name: "several may be frozen at once",
			why:  "a copy by hand must not wait for the nightly one, nor spoil it",
			run: with(func(f *freezing) {
				k := named("k")
				var all []tiers.Frozen
				for i := range 3 {
					f.save(raw(k, fmt.Sprint(i)))
					one := f.freeze(f.ctx, nil)
					defer func() { f.shut(one) }()
					all = append(all, one)
				}
				f.save(raw(k, "last"))
				for i, one := range slices.Backward(all) {
					if got := f.records(one); len(got) != 1 || string(got[0].Value) != fmt.Sprint(i) {
						f.Errorf("copy %d holds %v", i, got)
					}
				}
			}),
		},
		{
			name: "nobody commits while it is being frozen",
			why:  "what is frozen elsewhere meanwhile has to be of the same instant",
			run: with(func(f *freezing) {
				var done func()
				frozen := f.freeze(f.ctx, func(context.Context) error {
					var still bool
					if still, done = f.waiting(func() { f.save(raw(named("k"), "v")) }); !still {
						f.Errorf("a save ended meanwhile")
					}
					return nil
				})
				defer func() { f.shut(frozen) }()
				done()
				f.wantValue("afterwards", named("k"), "v")
				if got := f.records(frozen); len(got) > 0 {
					f.Errorf("the copy holds what waited: %v", got)
				}
			}),
		},
		{
			name: "an error of during freezes nothing",
			why:  "if one of two stores can't be frozen there is no backup, and nobody to close the other",
			run: with(func(f *freezing) {
				broken := errors.New("broken")
				if _, err := f.freezer.Freeze(f.ctx, func(context.Context) error { return broken }); !errors.Is(err, broken) {
					f.Errorf("it answers %s", said(err))
				}
				f.save(raw(named("k"), "v"))
			}),
		},
		{
			name: "it ends with its context and with close",
			why:  "one that is forgotten would keep the store from tidying up for good",
			run:  with((*freezing).ends),
		},
		{
			name: "a copy that was cut short is refused",
			why:  "it would be a store without its newest records",
			run:  with((*freezing).cut),
		},
		{
			name: "a store that is open is not seized, and a seized one not opened",
			why:  "what replaces a store under those who have it open loses what they save",
			run:  with((*freezing).seized),
		},
		{
			name: "an adopted copy is a store",
			why:  "that is what a backup is for",
			run:  with((*freezing).adopted),
		},
	}}}
}

// freezing is a rule about a store that can be frozen.
type freezing struct {
	*T
	freezer tiers.Freezer
	copies  tiers.Copies
	place   string
	made    int
}

func (f *freezing) freeze(ctx context.Context, during func(context.Context) error) tiers.Frozen {
	frozen, err := f.freezer.Freeze(ctx, during)
	if err != nil {
		f.Fatalf("freeze: %v", err)
	}
	return frozen
}

func (f *freezing) shut(frozen tiers.Frozen) {
	if err := frozen.Close(); err != nil {
		f.Errorf("close of a frozen store: %v", err)
	}
}

// copy writes a copy to a path of its own, and answers what was frozen as well.
func (f *freezing) copy(frozen tiers.Frozen) (path string, content tiers.Content) {
	var b bytes.Buffer
	if err := frozen.Copy(f.ctx, &b); err != nil {
		f.Fatalf("copy: %v", err)
	}
	content, err := frozen.Content(f.ctx)
	if err != nil {
		f.Fatalf("content: %v", err)
	}
	if content.Format != f.copies.Format() {
		f.Fatalf("it is in format %q, which is not read: %q is", content.Format, f.copies.Format())
	}
	f.made++
	path = filepath.Join(f.dir, fmt.Sprintf("copy-%d", f.made))
	if err := f.store(path, content.Format, b.Bytes()); err != nil {
		f.Fatalf("store a copy: %v", err)
	}
	return path, content
}

// store makes of a stream what Copies read.
func (f *freezing) store(path, format string, b []byte) (err error) {
	if format != tiers.FormatTar && format != tiers.FormatEntries {
		return os.WriteFile(path, b, 0o600)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	_, err = archive.Unpack(f.ctx, bytes.NewReader(b), root, archive.Limits{Files: 1 << 20, Bytes: 1 << 30})
	return err
}

// records answers what a copy holds, after a look at all of it.
func (f *freezing) records(frozen tiers.Frozen) (all []tiers.Record) {
	path, said := f.copy(frozen)
	c, err := f.copies.OpenCopy(f.ctx, path)
	if err != nil {
		f.Fatalf("open copy: %v", err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			f.Errorf("close of a copy: %v", err)
		}
	}()
	if err := c.Check(f.ctx); err != nil {
		f.Errorf("check: %v", err)
	}
	got, err := c.Content(f.ctx)
	if err != nil {
		f.Fatalf("content of a copy: %v", err)
	}
	if !slices.Equal(got.Records, said.Records) || got.Version != said.Version || got.Schema != said.Schema || got.Sequence != said.Sequence {
		f.Errorf("the copy says %+v of itself, the frozen store said %+v", got, said)
	}
	for _, n := range got.Records {
		var counted int64
		last := ""
		for r, err := range c.Records(f.ctx, n.Space) {
			if err != nil {
				f.Fatalf("records of a copy: %v", err)
			}
			if r.Space() != n.Space || counted > 0 && r.Name <= last {
				f.Errorf("%s is answered after %s, for %v", show(r.Key), cut(last), n.Space)
			}
			last = r.Name
			counted++
			all = append(all, r)
		}
		if counted != n.Records {
			f.Errorf("%v is said to have %d records, and has %d", n.Space, n.Records, counted)
		}
	}
	return all
}

func (f *freezing) instant() {
	stays, changed, gone := f.save(raw(named("stays"), "1")), f.save(raw(named("changed"), "1")), f.save(raw(named("gone"), "1"))
	lasting := f.save(lasting(named("lasting"), "1", time.Hour))
	other := f.save(tiers.Record{Key: tiers.Key{Namespace: "n", Category: category + ".other", Name: "a/b Ü"}, Codec: "json", Schema: 7, Value: []byte(`{"a":[1,2]}`)})
	frozen := f.freeze(f.ctx, nil)
	defer func() { f.shut(frozen) }()
	f.save(raw(changed.Key, "2"))
	f.delete(gone.Key)
	f.save(raw(named("fresh"), "2"))
	want := []tiers.Record{changed, gone, lasting, stays, other}
	for range 2 {
		got := f.records(frozen)
		if len(got) != len(want) {
			f.Fatalf("the copy holds %d records, want %d: %v", len(got), len(want), got)
		}
		for i := range want {
			f.wantSame("in the copy", got[i], want[i])
		}
	}
	f.wantValue("in the store", changed.Key, "2")
	f.wantAbsent("in the store", gone.Key)
}

func (f *freezing) ends() {
	f.save(raw(named("k"), "v"))
	dead := func(what string, frozen tiers.Frozen) {
		if !f.poll(5*time.Second, func() bool { return frozen.Copy(f.ctx, &bytes.Buffer{}) != nil }) {
			f.Errorf("%s: it is still copied", what)
		}
	}
	frozen := f.freeze(f.ctx, nil)
	f.shut(frozen)
	dead("closed", frozen)
	f.shut(frozen)
	ctx, end := context.WithCancel(f.ctx)
	defer end()
	frozen = f.freeze(ctx, nil)
	end()
	dead("the context has ended", frozen)
	f.shut(frozen)
	if _, err := f.freezer.Freeze(ctx, nil); !errors.Is(err, context.Canceled) {
		f.Errorf("with a context that has ended it answers %s", said(err))
	}
	f.save(raw(named("k"), "later"))
}

// cut leaves out the end of a copy.
func (f *freezing) cut() {
	for i := range 20 {
		f.save(raw(numbered("k", i), strings.Repeat("v", 2000)))
	}
	frozen := f.freeze(f.ctx, nil)
	defer func() { f.shut(frozen) }()
	var b bytes.Buffer
	if err := frozen.Copy(f.ctx, &b); err != nil {
		f.Fatalf("copy: %v", err)
	}
	path := filepath.Join(f.dir, "cut")
	err := f.store(path, f.copies.Format(), b.Bytes()[:b.Len()/2])
	var c tiers.Copy
	if err == nil {
		c, err = f.copies.OpenCopy(f.ctx, path)
	}
	if err == nil {
		err = errors.Join(c.Check(f.ctx), c.Close())
	}
	f.wantError("half of a copy", err, tiers.ErrCorrupt)
}

func (f *freezing) seized() {
	if f.place == "" { // a server does not tell who uses a store
		return
	}
	f.save(raw(named("k"), "v"))
	if release, err := f.copies.Seize(f.ctx, f.place); !errors.Is(err, tiers.ErrUnavailable) {
		f.Errorf("seizing a store that is open answers %s", said(err))
		if err == nil {
			_ = release()
		}
	}
	if err := f.Tier.Close(f.ctx); err != nil {
		f.Fatalf("close: %v", err)
	}
	release, err := f.copies.Seize(f.ctx, f.place)
	if err != nil {
		f.Fatalf("seizing a store that is closed: %v", err)
	}
	if h, err := f.Config.Open(f.ctx, f.dir, f.Clock); !errors.Is(err, tiers.ErrUnavailable) {
		f.Errorf("opening a store that is seized answers %s", said(err))
		if err == nil {
			_ = h.Close(f.ctx)
		}
	}
	if err := release(); err != nil {
		f.Errorf("release: %v", err)
	}
	f.Tier = f.Open()
	f.wantValue("afterwards", named("k"), "v")
}

// adopted puts a copy in the place of the store.
func (f *freezing) adopted() {
	k := named("k")
	before := f.save(raw(k, "before"))
	frozen := f.freeze(f.ctx, nil)
	f.save(raw(k, "later"))
	path, _ := f.copy(frozen)
	f.shut(frozen)
	if err := f.copies.Adopt(f.ctx, path, map[string]string{"epoch": "another"}); err != nil {
		f.Fatalf("adopt: %v", err)
	}
	if f.place == "" {
		l, ok := tiers.As[tiers.Loader](f.Tier)
		if !ok {
			f.Fatalf("the tier loads no copies")
		}
		if _, err := l.LoadCopy(f.ctx, path, "epoch"); err != nil {
			f.Fatalf("load copy: %v", err)
		}
	}
	if err := f.Tier.Close(f.ctx); err != nil {
		f.Fatalf("close: %v", err)
	}
	f.swap(path)
	f.Tier = f.Open()
	f.wantSame("restored", f.load(k), before)
	if again := f.save(raw(k, "again")); again.Version <= before.Version {
		f.Errorf("a save gets version %d after %d", again.Version, before.Version)
	}
}

// swap puts a copy in the place of a store that is a file or a tree.
func (f *freezing) swap(path string) {
	if f.place == "" {
		return
	}
	for _, ending := range append(f.copies.Beside(), "") {
		if err := os.RemoveAll(f.place + ending); err != nil {
			f.Fatalf("%v", err)
		}
	}
	if err := os.Rename(path, f.place); err != nil {
		f.Fatalf("%v", err)
	}
}
