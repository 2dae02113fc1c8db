package txn

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sagestore/sagestore/tiers"
)

// Incoming is a space that was prepared for a tier with a journal.
type Incoming struct {
	Tier string
	From tiers.Space // of the deciding store: what comes
	Gone tiers.Space // of the deciding store: Switch keeps the keys there that To has
	To   tiers.Space // of Tier
}

// Switch puts prepared spaces in the place of others, all in one step: the moves within
// the deciding store, and the incoming ones by rows of the journal, as a commit would.
// Nothing of them is held in memory. From and Gone stay as they are.
//
// In this process nobody changes anything of the tiers of in meanwhile. What another
// process saves without a transaction while this is decided counts as saved after it.
// It answers what the moves did, and what became of each incoming space. store is the
// deciding one. ErrUnsupported: see [Engine.Switches].
func (e *Engine) Switch(ctx context.Context, store tiers.Tier, moves []tiers.Move, in []Incoming) (moved, came []tiers.Moved, err error) {
	s := switching{e: e, store: store, moves: moves}
	defer func() { err = tiers.Fail("switch", "", tiers.Key{}, err) }()
	if err := s.find(in); err != nil {
		return nil, nil, err
	}
	// Most of the keys are kept while nobody waits.
	for _, a := range s.in {
		if _, err := s.keep(ctx, a); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range e.order {
		if !s.uses(m) {
			continue
		}
		release, err := m.rows.holds.hold(ctx, nil, true)
		if err != nil {
			return nil, nil, err
		}
		defer release()
		m.rows.view.begin()
		defer m.rows.view.end()
	}
	for left := tries; ; left-- {
		moved, came, err = s.attempt(ctx)
		again := errors.Is(err, tiers.ErrConflict) && !errors.Is(err, tiers.ErrCommitUnknown)
		if !again || left == 0 || ctx.Err() != nil {
			return moved, came, err
		}
	}
}

// Switches tells whether Switch can bring something into a tier.
func (e *Engine) Switches(tier string) bool {
	_, switches := e.committer.(tiers.RowSwitcher)
	_, marks := e.committer.(marker)
	m := e.members[tier]
	return switches && marks && m != nil && (m.decides || m.rows != nil)
}

// marker is what [tiers.Carrier] has of it.
type marker interface {
	Marks(ctx context.Context) (tiers.Marks, error)
}

// switching is one switch.
type switching struct {
	e        *Engine
	store    tiers.Tier
	switcher tiers.RowSwitcher
	marker   marker
	applier  tiers.Applier
	moves    []tiers.Move
	in       []*arriving
}

type arriving struct {
	Incoming
	*member
}

// find looks whether all can do what is asked of them.
func (s *switching) find(in []Incoming) error {
	var can [3]bool
	s.switcher, can[0] = s.e.committer.(tiers.RowSwitcher) // which names the tiers as the engine does
	s.marker, can[1] = s.e.committer.(marker)
	s.applier, can[2] = tiers.As[tiers.Applier](s.store)
	if can != [3]bool{true, true, true} {
		return fmt.Errorf("%w: the store can't switch", tiers.ErrUnsupported)
	}
	for i := range in {
		m := s.e.members[in[i].Tier]
		if m == nil || m.rows == nil {
			return fmt.Errorf("%w: the tier %s has no journal", tiers.ErrUnsupported, in[i].Tier)
		}
		s.in = append(s.in, &arriving{in[i], m})
	}
	return nil
}

func (s *switching) uses(m *member) bool {
	for _, a := range s.in {
		if a.member == m {
			return true
		}
	}
	return false
}

// attempt is made while the tiers are held. What counts as before the switch is what
// was there when its version was issued, so it is listed after that.
func (s *switching) attempt(ctx context.Context) (moved, came []tiers.Moved, err error) {
	since, err := s.e.committer.Sequence(ctx)
	if err != nil {
		return nil, nil, err
	}
	marks, err := s.marker.Marks(ctx)
	if err != nil {
		return nil, nil, err
	}
	came = make([]tiers.Moved, len(s.in))
	rows := make([]tiers.RowMove, len(s.in))
	for i, a := range s.in {
		v, err := a.rows.issueOne(ctx, a.To, marks.Issued[a.name])
		if err != nil {
			return nil, nil, tiers.Fail("switch", a.name, tiers.Key{Category: a.To.Category}, err)
		}
		was, err := s.keep(ctx, a)
		if err != nil {
			return nil, nil, err
		}
		if a.rows.reserver == nil {
			v = max(v, was.highest+1)
		}
		came[i].Replaced = was.keys
		rows[i] = tiers.RowMove{From: a.From, Gone: a.Gone, To: a.To, Tier: a.name, Owner: a.rows.owner, Version: v, Since: since}
	}
	moved, brought, err := s.switcher.SwitchRows(ctx, s.moves, rows)
	if err != nil {
		s.kick()
		return nil, nil, err
	}
	for i, n := range brought {
		came[i].Brought = n
	}
	s.kick()
	return moved, came, nil
}

// kick has rows applied, of which there may be some even after an error.
func (s *switching) kick() {
	for _, a := range s.in {
		a.rows.apply.later(1)
	}
}

// issueOne answers a version for what comes into a space.
func (j *Journaled) issueOne(ctx context.Context, to tiers.Space, above tiers.Version) (tiers.Version, error) {
	if err := j.meet(ctx); err != nil {
		return 0, err
	}
	issued, err := j.issue(ctx, []tiers.Key{{Namespace: to.Namespace, Category: to.Category, Name: "any"}}, above)
	if err != nil {
		return 0, err
	}
	return issued[0].Next, nil
}

// keptAtOnce is how many keys are kept in one step.
const keptAtOnce = 2048

// found is what a space holds.
type found struct {
	keys    int64
	highest tiers.Version
}

// keep adds the keys that a space has to those that are kept of it.
func (s *switching) keep(ctx context.Context, a *arriving) (was found, err error) {
	kept, stop := iter.Pull2(s.store.List(ctx, tiers.Query{Namespace: a.Gone.Namespace, Category: a.Gone.Category, KeysOnly: true}))
	defer stop()
	known, more := "", true // the next one that is kept
	next := func() error {
		r, err, ok := kept()
		known, more = r.Name, ok
		return err
	}
	if err := next(); err != nil {
		return was, err
	}
	var chunk []tiers.Record
	for r, err := range a.tier.List(ctx, tiers.Query{Namespace: a.To.Namespace, Category: a.To.Category, KeysOnly: true}) {
		if err != nil && r.Name == "" {
			return was, err
		}
		was.keys++ // what can't be read goes as well
		was.highest = max(was.highest, r.Version)
		for more && known < r.Name {
			if err := next(); err != nil {
				return was, err
			}
		}
		if more && known == r.Name {
			continue
		}
		chunk = append(chunk, s.mark(a, r.Name))
		if len(chunk) == keptAtOnce {
			if err := s.applier.Apply(ctx, chunk, nil); err != nil {
				return was, err
			}
			chunk = nil
		}
	}
	if len(chunk) == 0 {
		return was, nil
	}
	return was, s.applier.Apply(ctx, chunk, nil)
}

// mark is the record that keeps a key.
func (s *switching) mark(a *arriving, name string) tiers.Record {
	now := tiers.Micro(s.e.clock.Now())
	return tiers.Record{
		Key:   tiers.Key{Namespace: a.Gone.Namespace, Category: a.Gone.Category, Name: name},
		Codec: "raw", Version: 1, Created: now, Updated: now, Value: []byte{},
	}
}
