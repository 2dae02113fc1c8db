package filetree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// A listing walks the directories, since their order is not that of the keys,
// keeps the names of one page, and loads them one by one.
const (
	smallPage = 256
	largePage = 16384
)

// List yields what the query selects, in bytewise order of the key. A file that
// is no record, but lies where records are, is yielded as an error that names
// the right name.
func (t *Tree) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return t.list(ctx, q, func(k tiers.Key) (tiers.Record, error) { return t.load(ctx, k, !q.KeysOnly) })
}

// list lists what load answers for the keys.
func (t *Tree) list(ctx context.Context, q tiers.Query, load func(tiers.Key) (tiers.Record, error)) iter.Seq2[tiers.Record, error] {
	space := tiers.Space{Namespace: q.Namespace, Category: q.Category}
	if err := space.Check(); err != nil {
		return tiers.Failed[tiers.Record](t.failSpace(space, err))
	}
	return func(yield func(tiers.Record, error) bool) {
		page := largePage
		if q.Limit > 0 {
			page = min(max(smallPage, 2*q.Limit), largePage)
		}
		left := q.Limit
		for {
			items, more, err := t.page(ctx, q, page)
			if err != nil {
				yield(tiers.Record{}, t.failSpace(space, err))
				return
			}
			for _, it := range items {
				r, err := t.item(space, it, load)
				switch {
				case errors.Is(err, tiers.ErrNotFound):
					continue
				case errors.Is(err, tiers.ErrClosed), ctx.Err() != nil:
					yield(tiers.Record{}, t.failSpace(space, err))
					return
				}
				if !yield(r, err) {
					return
				}
				if err == nil && left > 0 {
					if left--; left == 0 {
						return
					}
				}
			}
			if !more {
				return
			}
			q.After = items[len(items)-1].name
		}
	}
}

func (t *Tree) failSpace(s tiers.Space, err error) error {
	return t.fail("list", tiers.Key{Namespace: s.Namespace, Category: s.Category}, err)
}

// item is a key to list; foreign is why the file that led to it is no record.
type item struct {
	name    string
	foreign error
}

func (t *Tree) item(s tiers.Space, it item, load func(tiers.Key) (tiers.Record, error)) (tiers.Record, error) {
	k := tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: it.name}
	if it.foreign != nil {
		return tiers.Record{Key: k}, t.fail("list", k, it.foreign)
	}
	r, err := load(k)
	if err != nil {
		return tiers.Record{Key: k}, t.fail("list", k, err)
	}
	return r, nil
}

// page answers the first keys of the query in its direction, at most size of
// them, and whether there may be more.
func (t *Tree) page(ctx context.Context, q tiers.Query, size int) (items []item, more bool, err error) {
	compare := func(a, b item) int {
		c := strings.Compare(a.name, b.name)
		if q.Reverse {
			c = -c
		}
		if c == 0 && (a.foreign == nil) != (b.foreign == nil) {
			if a.foreign == nil {
				return -1
			}
			return 1
		}
		return c
	}
	trim := func() {
		slices.SortFunc(items, compare)
		items = slices.CompactFunc(items, func(a, b item) bool {
			return a.name == b.name && a.foreign == nil && b.foreign == nil
		})
		// Two that share a name may not be parted: the next page begins beyond it.
		if cut := size; len(items) > cut {
			for cut < len(items) && items[cut].name == items[cut-1].name {
				cut++
			}
			more = more || cut < len(items)
			items = items[:cut]
		}
	}
	sel := selection(q)
	err = t.walk(ctx, tiers.Space{Namespace: q.Namespace, Category: q.Category}, sel.meets, func(it item) {
		if !sel.selects(it.name) {
			return
		}
		if items = append(items, it); len(items) >= 2*size+smallPage {
			trim()
		}
	})
	trim()
	return items, more, err
}

// selection is a query as far as it is about the key.
type selection tiers.Query

// selects tells whether the key is among those asked for.
func (q selection) selects(name string) bool {
	if !strings.HasPrefix(name, q.Prefix) {
		return false
	}
	switch {
	case q.After == "":
		return true
	case q.Reverse:
		return name < q.After
	}
	return name > q.After
}

// meets tells whether a key that begins so may be among them.
func (q selection) meets(start string) bool {
	if !strings.HasPrefix(start, q.Prefix) && !strings.HasPrefix(q.Prefix, start) {
		return false
	}
	switch {
	case q.After == "" || strings.HasPrefix(q.After, start):
		return true
	case q.Reverse:
		return start < q.After
	}
	return start > q.After
}

// walk visits the keys of a space, and what lies there without being one. It
// goes into the directories that enter allows, given the beginning that all
// their keys share.
func (t *Tree) walk(ctx context.Context, s tiers.Space, enter func(prefix string) bool, visit func(item)) error {
	type place struct {
		dirs   []string
		prefix string
	}
	for todo := []place{{dirs: spaceDirs(s)}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		entries, err := t.readDir(ctx, strings.Join(at.dirs, "/"))
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := e.Name()
			switch {
			case name[0] == '.' || strings.Contains(name, edited):
			case e.IsDir():
				prefix := below(at.prefix, name)
				if len(prefix) <= 2*tiers.MaxKey && enter(prefix) {
					todo = append(todo, place{append(slices.Clip(at.dirs), name), prefix})
				}
			default:
				visit(t.identify(s, at.dirs, at.prefix, name, e.Type()))
			}
		}
	}
	return nil
}

// readDir answers the entries of a directory; one that is gone has none.
func (t *Tree) readDir(ctx context.Context, dir string) ([]fs.DirEntry, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	defer t.gate.leave()
	f, err := openDirectory(t.root, orRoot(dir))
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	if isAbsent(err) {
		err = nil
	}
	return entries, errors.Join(err, f.Close())
}

// identify answers the key of a file, or why it is none.
func (t *Tree) identify(s tiers.Space, dirs []string, prefix, name string, mode fs.FileMode) item {
	at := t.join(strings.Join(dirs, "/"), name)
	stem, ok := t.form.Stem(name)
	if !ok {
		k := tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: prefix + unescape(name)}
		return item{name: clean(k.Name), foreign: tiers.Hint(
			fmt.Errorf("%w: the ending of %s is none of a record", tiers.ErrUnsupported, at),
			"move the file away"+t.orRename(k, ".json"))}
	}
	k := tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: prefix + unescape(stem)}
	if k.Check() == nil && canonical(k, dirs, stem) {
		if !mode.IsRegular() {
			return item{name: k.Name, foreign: tiers.Hint(fmt.Errorf("%w: %s is not a regular file", tiers.ErrUnsupported, at),
				"put the file itself there; links and special files are not followed")}
		}
		return item{name: k.Name}
	}
	return item{name: clean(k.Name), foreign: tiers.Hint(
		fmt.Errorf("%w: %s is not how a key is written as a file", tiers.ErrKey, at),
		"move the file away"+t.orRename(k, name[len(stem):]))}
}

// orRename names the right name for a key, where it may be one at all.
func (t *Tree) orRename(k tiers.Key, ending string) string {
	if k.Check() != nil {
		return ""
	}
	p := placeOf(k)
	name := p.stem + ending
	if _, ok := t.form.Stem(name); !ok {
		return ""
	}
	return ", or name it " + t.join(p.dir(), name)
}

// clean makes the name of a file fit to be reported as a key.
func clean(name string) string {
	name = strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", "\uFFFD"), "\uFFFD")
	if name == "" {
		return "\uFFFD"
	}
	return name
}
