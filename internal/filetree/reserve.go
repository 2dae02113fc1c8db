package filetree

import (
	"context"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Reserve issues versions for changes that are applied later, see tiers.Reserver.
// No values are read, and nothing is synced beyond what the mark needs now and
// then.
//
// It takes no key's lock. What it answers was true at one moment, and a change
// that comes after that moment is told by the version, over which alone the
// reserved one is applied. A save that was under way already may have a version
// below the reserved one and get its name after it was issued: if that is before
// the reserved version is applied, then this one is passed over; if it is after,
// then the save sees under its lock that the key has changed, and takes a version
// anew.
func (t *Tree) Reserve(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	if err := t.enter(ctx); err != nil {
		return nil, t.fail("reserve", tiers.Key{}, err)
	}
	defer t.gate.leave()
	if len(ks) == 0 {
		return nil, nil
	}
	if err := t.writable(); err != nil {
		return nil, t.fail("reserve", ks[0], err)
	}
	if above > maxVersion {
		return nil, t.fail("reserve", ks[0], fmt.Errorf("%w: nothing is above the impossible version %d", tiers.ErrCorrupt, above))
	}
	out := make([]tiers.Reservation, len(ks))
	after := make([]tiers.Version, len(ks))
	look := looker{tree: t, now: t.clock.Now()}
	defer look.leave()
	for i, k := range ks {
		found, err := look.at(ctx, k)
		if err != nil {
			return nil, t.fail("reserve", k, err)
		}
		if len(found.Files) == 0 {
			continue
		}
		after[i] = found.Record.Version
		if found.Record.Live(look.now) {
			out[i].Version, out[i].Created = found.Record.Version, found.Record.Created
		}
	}
	next, err := t.mark.nextOf(ctx, above, after)
	if err != nil {
		return nil, t.fail("reserve", ks[0], err)
	}
	for i := range out {
		out[i].Next = next[i]
	}
	return out, nil
}

// looker finds records one after the other, and keeps the directory of the last
// one open, since keys that belong together often lie together.
type looker struct {
	tree *Tree
	now  time.Time
	dir  *Dir // nil when the last one's is not there
	path string
	open bool
}

// at answers what is there, with no files when nothing is. What can't be read is
// there: it has a version.
func (l *looker) at(ctx context.Context, k tiers.Key) (Found, error) {
	if err := k.Check(); err != nil {
		return Found{}, err
	}
	if ctx.Err() != nil {
		return Found{}, context.Cause(ctx)
	}
	p := placeOf(k)
	if path := p.dir(); !l.open || path != l.path {
		l.leave()
		d, err := l.tree.openDir(path)
		if err != nil && !isAbsent(err) {
			return Found{}, err
		}
		l.dir, l.path, l.open = d, path, true
	}
	if l.dir == nil {
		return Found{}, nil
	}
	found, err := l.tree.form.Find(l.dir, p.stem, false)
	if len(found.Files) == 0 {
		return found, err
	}
	if found.Record.Version > maxVersion {
		return Found{}, fmt.Errorf("%w: its version %d is impossible", tiers.ErrCorrupt, found.Record.Version)
	}
	return found, nil
}

func (l *looker) leave() {
	if l.dir != nil {
		_ = l.dir.close() // was only read
	}
	l.dir, l.open = nil, false
}
