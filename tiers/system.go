package tiers

import (
	"context"
	"iter"
	"time"
)

// System is what the store of a manager keeps about itself: the journal, the
// sessions and a few facts. The database tier offers it as a capability; the
// memory tier offers one that lives as long as the process, for managers that
// keep everything in memory.
type System interface {
	Facts
	Journal
	Sessions
	Locker

	// Changes answers counters that grow whenever any process changes the
	// journal or a session. It is cheap enough to be asked every 100 ms, and
	// costs next to nothing when nothing was written.
	Changes(ctx context.Context) (Changes, error)
}

// Changes are the counters of [System.Changes].
type Changes struct{ Journal, Sessions uint64 }

// Facts are a few named values of the store, such as its epoch.
type Facts interface {
	// Fact answers the value, or ErrNotFound.
	Fact(ctx context.Context, name string) ([]byte, error)
	// SetFact stores the value and answers it. With ifAbsent a value that is
	// already there stays, and is the answer.
	SetFact(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error)
	// Facts yields names and values in order of the name.
	Facts(ctx context.Context, prefix string) iter.Seq2[Fact, error]
}

// Fact is a named value.
type Fact struct {
	Name  string
	Value []byte
}

// Row is a redo record: what has to reach a tier. There is one row at most for
// a key of a tier; the newest counts.
type Row struct {
	Record        // Deleted: the key is to be deleted. Expires, not TTL
	Seq    uint64 // grows with every change of the journal
	Tier   string // "cache" or "file"
	Owner  string // who applies it
	Over   Cond   // the version that it may replace; zero: any lower one

	// Reserved: the tier has issued the version, see [Reserver], so it is not
	// raised to the time or to what the journal has issued, but only above that
	// of a row which it replaces. It is not stored.
	Reserved bool
}

// Journal holds rows until they are applied.
type Journal interface {
	// Append stores the rows in one commit and answers them with Seq and
	// Version. The version of a row is the highest of the one it comes with,
	// which is a floor, the time, and one more than any the journal has issued
	// for that tier. A row that replaces an earlier one of the same tier and
	// key goes over any lower version: the earlier one may be in the tier
	// already. Conditions are nil or of equal length, and hold
	// against the rows that are pending, where a deleted or expired row counts
	// as absent. Any failed condition, or more than limit bytes of keys and
	// values pending for a tier (0: no limit; ErrFull; deletes always fit),
	// stores nothing.
	Append(ctx context.Context, rows []Row, conds []Cond, limit int64) ([]Row, error)
	// Pending answers the row of a key, or ErrNotFound. An expired or deleted
	// row is answered like any other.
	Pending(ctx context.Context, tier string, k Key) (Row, error)
	// ListPending yields rows of a tier by key, expired and deleted ones too.
	ListPending(ctx context.Context, tier string, q Query) iter.Seq2[Row, error]
	// Due answers up to limit rows of a tier in order of Seq, beginning after
	// one.
	Due(ctx context.Context, tier string, after uint64, limit int) ([]Row, error)
	// Done removes rows that are still the ones given, told by Seq.
	Done(ctx context.Context, rows []Row) error
	// Backlog answers what is pending.
	Backlog(ctx context.Context, tier string) (Backlog, error)
}

// Waiter is a [Journal] that knows where rows are without looking.
type Waiter interface {
	// Waits tells whether a row of the key may wait. No means that of the rows up to
	// the last answer of [System.Changes] or [Committer.Sequence], and of those that
	// this handle has made, none does.
	Waits(tier string, k Key) bool
}

// Backlog is how much a journal holds for a tier.
type Backlog struct {
	Rows   int64
	Bytes  int64 // of keys and values
	Oldest time.Time
}

// Session is a row of the sessions of a store.
type Session struct {
	Namespace  string
	ID         string
	Generation uint64 // grows with each end and each reopening
	Started    time.Time
	Seen       time.Time // written rarely
	Ended      time.Time // zero: it goes on
	Seq        uint64    // grows with every start, end and reopening of any session
}

// Sessions says which sessions there are.
type Sessions interface {
	// StartSession answers the session, which it makes when there is none. An
	// ended one is answered as it is.
	StartSession(ctx context.Context, namespace, id string) (Session, error)
	// SeenSessions raises Seen of sessions that go on.
	SeenSessions(ctx context.Context, seen []Session) error
	// EndSession ends it and answers the row as it is now, with existed false
	// when there was none; ended sessions stay as rows. With idleSince set it
	// ends the session only if Seen is not after that instant, and else answers
	// ErrConflict.
	EndSession(ctx context.Context, namespace, id string, idleSince time.Time) (s Session, existed bool, err error)
	// ReopenSession makes an ended or unknown session go on.
	ReopenSession(ctx context.Context, namespace, id string) (Session, error)
	// ListSessions yields the sessions by namespace and id.
	ListSessions(ctx context.Context) iter.Seq2[Session, error]
	// SessionsSince yields those whose Seq is higher, in order of Seq.
	SessionsSince(ctx context.Context, seq uint64) iter.Seq2[Session, error]
}

// Locker has locks that end with the process that holds them, and not before, unless it
// is a [Holder]: one that was stopped for a while still has what it had.
type Locker interface {
	// Lock takes the lock of that name, unless somebody has it, by this handle or
	// another one. unlock gives it back, once.
	Lock(ctx context.Context, name string) (unlock func(), ok bool, err error)
}

// Holder is a [Locker] whose locks may end before they are given back, such as with a
// connection. What they are to keep apart asks it before each step.
type Holder interface {
	// Holds tells whether this handle has had the lock of that name ever since it took it.
	// No is also the answer for one that was lost and taken again: somebody may have had it
	// in between.
	Holds(ctx context.Context, name string) (bool, error)
}
