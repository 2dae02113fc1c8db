package filetree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/tiers"
)

// idFile holds the random id by which rows in a database elsewhere name the tree.
const idFile = ".sage-id"

// Copies reads the copies that the Frozen of a tree writes, after they have been
// unpacked into a directory. form makes a form of the tree's kind. Of c the directory
// is not used.
func Copies(c Config, form func() Form) tiers.Copies { return copies{c: c, form: form} }

type copies struct {
	c    Config
	form func() Form
}

// Format implements tiers.Copies.
func (cs copies) Format() string {
	if cs.c.Copies == "" {
		return tiers.FormatTar
	}
	return cs.c.Copies
}

// Beside implements tiers.Copies: all is in the directory.
func (copies) Beside() []string { return nil }

// OpenCopy implements tiers.Copies.
func (cs copies) OpenCopy(ctx context.Context, path string) (tiers.Copy, error) {
	d, err := cs.open(ctx, path)
	if err != nil {
		return nil, tiers.Fail("open copy", cs.c.Name, tiers.Key{}, explain(err))
	}
	return d, nil
}

func (cs copies) open(ctx context.Context, path string) (*copied, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	base, err := expand(path)
	if err != nil {
		return nil, err
	}
	fi, err := os.Lstat(base)
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%w: %s is not a directory", tiers.ErrCorrupt, base)
	}
	if err != nil {
		return nil, err
	}
	c := cs.c
	c.Form = cs.form()
	t, err := openAt(base, c)
	if err != nil {
		return nil, err
	}
	mark, _, err := (&Dir{handle: t.top, tree: t}).Read(markFile, markSize+1)
	if _, ok := versionOfMark(mark); !ok || err != nil {
		err = fmt.Errorf("%w: %s says of no copy what version it has", tiers.ErrCorrupt, t.join("", markFile))
		return nil, also(err, t.Close(ctx))
	}
	return &copied{t: t}, nil
}

// Adopt implements tiers.Copies. A tree keeps no facts, but it must not be taken for
// the one that was copied.
func (cs copies) Adopt(_ context.Context, path string, _ map[string]string) (err error) {
	defer func() { err = tiers.Fail("adopt", cs.c.Name, tiers.Key{}, explain(err)) }()
	base, err := expand(path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer func() { err = also(err, root.Close()) }()
	if err := root.Remove(idFile); err != nil {
		return nilIf(err, fs.ErrNotExist)
	}
	return SyncRoot(root)
}

// Replace implements tiers.Replacer: writes that wait for the tree find the copy in its
// place, when there is no other tree there that they could not be meant for.
func (cs copies) Replace(ctx context.Context, path, place string, facts map[string]string) error {
	same, err := sameID(path, place)
	if err != nil {
		return tiers.Fail("adopt", cs.c.Name, tiers.Key{}, explain(err))
	}
	if same {
		return nil
	}
	return cs.Adopt(ctx, path, facts)
}

// sameID tells whether the tree at place has the id of the copy, or none.
func sameID(path, place string) (bool, error) {
	var ids [2][]byte
	for i, base := range []string{path, place} {
		dir, err := expand(base)
		if err != nil {
			return false, err
		}
		ids[i], err = os.ReadFile(filepath.Join(dir, idFile)) //nolint:gosec // the place of a tree
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return len(ids[1]) == 0 || bytes.Equal(ids[0], ids[1]), nil
}

// Seize implements tiers.Copies.
func (cs copies) Seize(ctx context.Context, path string) (release func() error, err error) {
	base, err := expand(path)
	if err == nil {
		release, err = seize(ctx, base)
	}
	if err != nil {
		return nil, tiers.Fail("lock", cs.c.Name, tiers.Key{}, explain(err))
	}
	return release, nil
}

// copied is a copy that is open for reading. All that is said of it is found in one
// walk over it.
type copied struct {
	t       *Tree
	once    sync.Once
	content tiers.Content
	err     error
}

// scan walks once. A context that ends makes it an error for good.
func (d *copied) scan(ctx context.Context) error {
	d.once.Do(func() {
		w := &walker{tree: d.t, from: d}
		var sums archive.Sums
		for f, err := range w.files() {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				d.err = err
				return
			}
			sums.Files++
			sums.Bytes += f.Size
		}
		d.content = w.content(sums)
		if !w.marked || len(w.count.LeftOut) > 0 {
			d.err = fmt.Errorf("%w: it holds what no copy holds: %q", tiers.ErrCorrupt, w.count.LeftOut)
		}
	})
	return d.err
}

// Check implements tiers.Copy. A file that was damaged when it was copied is counted
// and is no error.
func (d *copied) Check(ctx context.Context) error { return d.t.fail("check", tiers.Key{}, d.scan(ctx)) }

// Content implements tiers.Copy.
func (d *copied) Content(ctx context.Context, _ ...string) (tiers.Content, error) {
	if err := d.scan(ctx); err != nil {
		return tiers.Content{}, d.t.fail("read copy", tiers.Key{}, err)
	}
	return d.content, nil
}

// Records implements tiers.Copy.
func (d *copied) Records(ctx context.Context, s tiers.Space) iter.Seq2[tiers.Record, error] {
	q := tiers.Query{Namespace: s.Namespace, Category: s.Category}
	return d.t.list(ctx, q, func(k tiers.Key) (tiers.Record, error) {
		if ctx.Err() != nil {
			return tiers.Record{Key: k}, context.Cause(ctx)
		}
		found, err := d.t.look(k, true)
		if err == nil && len(found.Files) == 0 {
			err = tiers.ErrNotFound
		}
		found.Record.Key = k
		return found.Record, err
	})
}

// Close implements tiers.Copy.
func (d *copied) Close() error { return d.t.Close(context.Background()) }

// list implements view.
func (d *copied) list(dir string) (entries, error) { return listDir(d.t.root, dir) }

// open implements view.
func (d *copied) open(name string) (opening, error) {
	o, err := openFile(d.t.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s is gone", tiers.ErrCorrupt, name)
	}
	return o, err
}
