package manager

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/sagestore/sagestore/tiers"
)

// sessionID names a session: the same id in two namespaces is two sessions.
type sessionID struct{ namespace, id string }

// presence is what this process knows about a session that it has used. Saves
// hold a share of it while they run; who ends or reopens the session holds it
// whole. So a save that is under way when a session ends is finished before its
// records are removed, and a later one is refused.
type presence struct {
	sessionID
	shares *semaphore.Weighted // unlike a RWMutex it honours contexts
	seen   atomic.Int64        // microseconds

	mu      sync.Mutex
	row     tiers.Session // the newest known; Seq 0: not asked for yet
	flushed int64         // the seen that the system store has
	purged  uint64        // the Seq of the end after which this process removed everything
	dropped bool          // no longer in the map: look again
}

const wholePresence = 1 << 30

func newPresence(id sessionID) *presence {
	return &presence{sessionID: id, shares: semaphore.NewWeighted(wholePresence)}
}

// learn takes over the row if it is newer than what is known.
func (p *presence) learn(row tiers.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if row.Seq > p.row.Seq {
		p.row = row
	}
}

// state answers whether the session was started, and is over, as far as this
// process knows, and whether the presence itself still counts.
func (p *presence) state() (row tiers.Session, dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.row, p.dropped
}

// isPurged tells whether this process has removed what an end left to remove.
func (p *presence) isPurged(seq uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.purged >= seq
}

func ended(row tiers.Session) bool { return !row.Ended.IsZero() }

// presenceOf answers the presence of a session, and makes one.
func (s *sessions) presenceOf(id sessionID) *presence {
	if p, ok := s.present.Load(id); ok {
		return p.(*presence) //nolint:forcetypeassert // the map holds nothing else
	}
	p, _ := s.present.LoadOrStore(id, newPresence(id))
	return p.(*presence) //nolint:forcetypeassert // the map holds nothing else
}

// hold answers the presence, held with a weight, that is not dropped.
func (s *sessions) hold(ctx context.Context, id sessionID, weight int64) (*presence, tiers.Session, error) {
	for {
		p := s.presenceOf(id)
		if err := p.shares.Acquire(ctx, weight); err != nil {
			return nil, tiers.Session{}, err
		}
		row, dropped := p.state()
		if !dropped {
			return p, row, nil
		}
		p.shares.Release(weight)
	}
}

// enter lets a save into a session, which it starts if need be. The caller
// releases one share when the save is over.
func (s *sessions) enter(ctx context.Context, id sessionID) (*presence, error) {
	for {
		p, row, err := s.hold(ctx, id, 1)
		if err != nil {
			return nil, err
		}
		if row.Seq != 0 && !ended(row) {
			p.seen.Store(s.clock.Now().UnixMicro())
			return p, nil
		}
		p.shares.Release(1)
		if ended(row) {
			return nil, tiers.Hint(tiers.ErrSessionEnded, "start another session, or call Manager.ReopenSession")
		}
		if err := s.start(ctx, id); err != nil {
			return nil, err
		}
	}
}

func (s *sessions) start(ctx context.Context, id sessionID) error {
	p, row, err := s.hold(ctx, id, wholePresence)
	if err != nil {
		return err
	}
	defer p.shares.Release(wholePresence)
	if row.Seq != 0 {
		return nil // another caller was faster
	}
	row, err = s.system.StartSession(ctx, id.namespace, id.id)
	if err != nil {
		return tiers.Hint(err, "the session could not be started")
	}
	s.watchFrom(row.Seq)
	p.learn(row)
	return nil
}

// drop forgets presences that nobody has used since the instant. Of a session that has
// ended the last use is not written.
func (s *sessions) drop(before int64) {
	s.present.Range(func(key, value any) bool {
		p := value.(*presence) //nolint:forcetypeassert // the map holds nothing else
		if p.seen.Load() >= before || !p.shares.TryAcquire(wholePresence) {
			return true
		}
		p.mu.Lock()
		if p.seen.Load() <= p.flushed || ended(p.row) {
			p.dropped = true
			s.present.Delete(key)
		}
		p.mu.Unlock()
		p.shares.Release(wholePresence)
		return true
	})
}
