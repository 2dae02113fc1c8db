package filetree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// Spaces yields the spaces that hold records, in order.
func (t *Tree) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) {
		spaces, err := t.spaces(ctx)
		for _, s := range spaces {
			some, err := t.holds(ctx, s)
			if err != nil {
				yield(tiers.Space{}, t.failSpace(s, err))
				return
			}
			if some && !yield(s, nil) {
				return
			}
		}
		if err != nil {
			yield(tiers.Space{}, t.fail("list", tiers.Key{}, err))
		}
	}
}

// spaces answers the spaces that have a directory, in order.
func (t *Tree) spaces(ctx context.Context) ([]tiers.Space, error) {
	var out []tiers.Space
	var read func(dir, namespace, part string) error
	read = func(dir, namespace, part string) error {
		entries, err := t.readDir(ctx, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := e.Name()
			if !e.IsDir() || name[0] == '.' {
				continue
			}
			sub := strings.TrimPrefix(dir+"/"+name, "/")
			if space, ok := strings.CutPrefix(name, "@"); ok && dir == "" {
				if tiers.CheckNamespace(space) == nil && space != "" {
					err = errors.Join(err, read(sub, space, ""))
				}
				continue
			}
			if goesOn, ok := strings.CutSuffix(name, more); ok {
				err = errors.Join(err, read(sub, namespace, part+unescape(goesOn)))
				continue
			}
			s := tiers.Space{Namespace: namespace, Category: part + unescape(name)}
			if s.Check() == nil && strings.Join(spaceDirs(s), "/") == sub {
				out = append(out, s)
			}
		}
		return err
	}
	err := read("", "", "")
	slices.SortFunc(out, func(a, b tiers.Space) int {
		return cmpSpace(a, b)
	})
	return out, err
}

func cmpSpace(a, b tiers.Space) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Category, b.Category)
}

// holds tells whether there is any record in the space.
func (t *Tree) holds(ctx context.Context, s tiers.Space) (bool, error) {
	some := false
	err := t.walk(ctx, s, func(string) bool { return !some }, func(it item) {
		some = some || it.foreign == nil
	})
	return some, err
}

// survey visits all that is kept in the space: the key, and what can be told
// without reading it. temp visits the files of writers.
func (t *Tree) survey(ctx context.Context, s tiers.Space, sizes bool, visit func(k tiers.Key, st Sight) bool, temp func(dir, name string)) error {
	type place struct {
		dirs   []string
		prefix string
	}
	var errs []error
	for todo := []place{{dirs: spaceDirs(s)}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		dir := strings.Join(at.dirs, "/")
		entries, err := t.readDir(ctx, dir)
		if err != nil {
			return err
		}
		names := make([]string, 0, len(entries))
		for _, e := range entries {
			name := e.Name()
			switch {
			case e.IsDir() && name[0] != '.':
				if prefix := below(at.prefix, name); len(prefix) <= 2*tiers.MaxKey {
					todo = append(todo, place{append(slices.Clip(at.dirs), name), prefix})
				}
			case strings.HasPrefix(name, tempPrefix):
				if temp != nil {
					temp(dir, name)
				}
			case e.Type().IsRegular():
				names = append(names, name)
			}
		}
		goOn, err := t.surveyDir(ctx, s, at.dirs, at.prefix, names, sizes, visit)
		errs = append(errs, err)
		if !goOn || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (t *Tree) surveyDir(ctx context.Context, s tiers.Space, dirs []string, prefix string, names []string, sizes bool, visit func(tiers.Key, Sight) bool) (goOn bool, err error) {
	if err := t.enter(ctx); err != nil {
		return false, err
	}
	d, err := t.openDir(strings.Join(dirs, "/"))
	if err != nil {
		t.gate.leave()
		if isAbsent(err) {
			return true, nil
		}
		return false, err
	}
	var keys []tiers.Key
	var sights []Sight
	err = t.form.Survey(d, names, t.clock.Now(), sizes, func(st Sight) {
		k := tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: prefix + unescape(st.Stem)}
		if k.Check() == nil && canonical(k, dirs, st.Stem) {
			keys, sights = append(keys, k), append(sights, st)
		}
	})
	err = errors.Join(err, d.close())
	t.gate.leave()
	for i := range keys {
		if !visit(keys[i], sights[i]) {
			return false, err
		}
	}
	return true, err
}

// Count counts the live records of a space, and the bytes of their keys and of
// their values.
func (t *Tree) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	if err := s.Check(); err != nil {
		return 0, 0, t.failSpace(s, err)
	}
	err = t.survey(ctx, s, true, func(k tiers.Key, st Sight) bool {
		if !st.Absent && !st.Expired {
			entries++
			bytes += int64(len(k.Name)) + st.Size
		}
		return true
	}, nil)
	if err != nil {
		return 0, 0, t.failSpace(s, err)
	}
	return entries, bytes, nil
}

// Stats answers the counters since the tree was opened. It walks the whole
// tree to count what is stored.
func (t *Tree) Stats(ctx context.Context) (tiers.Stats, error) {
	st := tiers.Stats{
		Hits: t.counted.hits.Load(), Misses: t.counted.misses.Load(),
		Errors: t.counted.errors.Load(), Expired: t.counted.expired.Load(),
	}
	spaces, err := t.spaces(ctx)
	if err != nil {
		return tiers.Stats{}, t.fail("stats", tiers.Key{}, err)
	}
	for _, s := range spaces {
		entries, bytes, err := t.Count(ctx, s)
		if err != nil {
			return tiers.Stats{}, err
		}
		st.Entries += entries
		st.Bytes += bytes
	}
	return st, nil
}

// Sweep removes expired records, at most limit of them, and what interrupted
// writers and copies left behind.
func (t *Tree) Sweep(ctx context.Context, limit int) (removed int, err error) {
	spaces, err := t.spaces(ctx)
	if err != nil {
		return 0, t.fail("sweep", tiers.Key{}, err)
	}
	var errs []error
	if err := t.sweepSnapshots(); err != nil {
		errs = append(errs, t.fail("sweep", tiers.Key{}, err))
	}
	for _, s := range spaces {
		if removed >= limit {
			break
		}
		err := t.survey(ctx, s, false, func(k tiers.Key, st Sight) bool {
			if st.Expired || st.Litter || st.Absent {
				gone, err := t.sweepKey(ctx, k)
				if err != nil {
					errs = append(errs, t.fail("sweep", k, err))
				}
				if gone {
					removed++
					t.counted.expired.Add(1)
				}
			}
			return removed < limit && ctx.Err() == nil
		}, func(dir, name string) {
			if err := t.sweepTemp(ctx, dir, name); err != nil {
				errs = append(errs, t.failSpace(s, err))
			}
		})
		if err != nil {
			errs = append(errs, t.failSpace(s, err))
		}
	}
	return removed, errors.Join(errs...)
}

// sweepKey removes the record if it has expired, or else what is left over
// beside it.
func (t *Tree) sweepKey(ctx context.Context, k tiers.Key) (gone bool, err error) {
	err = t.with(ctx, k, false, func(c *change) (bool, error) {
		if c.dir == nil {
			return false, nil
		}
		if len(c.found.Files) > 0 && c.live == 0 {
			gone = true
			return t.remove(ctx, c)
		}
		if s, ok := t.form.(Sweeping); ok {
			return true, s.Tidy(c.dir, c.stem, c.found)
		}
		return false, nil
	})
	return gone && err == nil, err
}

// sweepTemp removes a writer's file, unless the writer still holds its lock.
func (t *Tree) sweepTemp(ctx context.Context, dir, name string) error {
	number, _, _ := strings.Cut(strings.TrimPrefix(name, tempPrefix), "-")
	stripe, err := strconv.Atoi(number)
	if err != nil || stripe < 0 || stripe >= Stripes {
		return nil
	}
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.gate.leave()
	release, err := t.stripes.acquire(ctx, stripe)
	if err != nil {
		return err
	}
	defer release()
	if err := t.root.Remove(dir + "/" + name); err != nil && !isAbsent(err) {
		return err
	}
	t.prune(dir)
	return nil
}

// Ping answers an error when the directory is not there any more.
func (t *Tree) Ping(ctx context.Context) error {
	return t.fail("ping", tiers.Key{}, t.ping(ctx))
}

func (t *Tree) ping(ctx context.Context) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.gate.leave()
	held, err := t.root.Stat(".")
	if err != nil {
		return err
	}
	there, err := os.Stat(t.base)
	if err != nil || !os.SameFile(held, there) {
		return tiers.Hint(fmt.Errorf("%w: %s is not the directory that was opened", tiers.ErrUnavailable, t.base), reopen)
	}
	return t.writable()
}
