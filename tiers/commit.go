package tiers

import (
	"context"
	"hash/fnv"
	"iter"
	"time"
)

// Commit is a transaction that is ready to be decided: what it has read has to
// be as it was, and then all that it changes is changed, or nothing.
type Commit struct {
	ID string // of the transaction, for [Committer.Outcome]; unique, at most 64 bytes

	// Of the store that decides. Saves are records like those of Save, and with
	// Deleted set a delete; a key is there once at most.
	Reads  []Read
	Ranges []Range
	Saves  []Record

	// Of other tiers, whose changes are rows of the journal. Since is the
	// [Committer.Sequence] from before the first of their reads.
	Since     uint64
	RowReads  []RowRead
	RowRanges []RowRange
	Rows      []Row
	RowLimits map[string]int64 // most bytes that may wait for a tier, as in Append
	OnlyOnce  string           // name of a fact that must not be there (ErrExists) and is set
	OnceValue []byte           // its value
}

// Read is a key and the version that was live there, 0 for absent.
type Read struct {
	Key
	Version Version
}

// Range is a listing: what Query selects up to and including the key End, or all
// of it when End is empty. Limit is not looked at. Sum is the [Digest] of it.
type Range struct {
	Query Query
	End   string
	Sum   uint64
}

// RowRead is a key of another tier as it was read.
type RowRead struct {
	Tier string
	Read
	// Unread: the key was not read, and is only written. The version is not looked
	// at: it holds if no row of the key that was made after Since has left the
	// journal, which a row whose version was reserved before might be below.
	Unread bool
}

// RowRange is a listing of another tier.
type RowRange struct {
	Tier string
	Range
}

// Committed is what a commit made.
type Committed struct {
	Saves []Record // aligned with those of the commit: versions and times; of deletes only the key
	Rows  []Row    // aligned with those of the commit
}

// Committer decides transactions. It is a capability of a store that offers
// [System] as well.
type Committer interface {
	// Commit checks and carries out c, durably, in one step. A read or a range
	// that is no longer as it was is ErrConflict with the key that changed. A
	// read of another tier holds if the row that waits for the key has that
	// version, where a deleted or expired row counts as absent, or, when none
	// waits, if no commit after Since has written another version to the key. A
	// range of another tier holds if no row in it has changed since, and no commit
	// since has written into it. Rows are stored as Append stores them.
	//
	// ErrCommitUnknown means that Outcome has the answer.
	Commit(ctx context.Context, c Commit) (Committed, error)
	// Outcome tells whether the transaction was committed. It is right for at
	// least a day after the transaction, and no transaction that this handle
	// began is still on its way when it answers.
	Outcome(ctx context.Context, id string) (committed bool, err error)
	// Sequence is the highest Seq that any row of the journal ever had.
	Sequence(ctx context.Context) (uint64, error)
}

// Publisher makes changes visible together that are decided elsewhere.
type Publisher interface {
	// Prepare checks Reads and Ranges of c and readies its Saves, for which
	// there is room then; it looks at nothing else of c. A read that is no longer
	// as it was is ErrConflict with its key. Until publish or abort, exactly one
	// of which must be called, and once, nobody else changes what was read or
	// reads what is changed: so the caller may not use the tier
	// in between. publish can't fail; it answers the records as [Committed].Saves.
	Prepare(ctx context.Context, c Commit) (publish func() []Record, abort func(), err error)
}

// Reservation is what a tier says of a key that is about to be changed.
type Reservation struct {
	Version Version   // of the live record; 0: absent
	Created time.Time // of the live record
	Next    Version   // above all that were issued, and below those of all later saves
}

// Reserver issues versions for changes that come later, by [Applier].
type Reserver interface {
	// Reserve answers one reservation for each key. Next is higher than above as
	// well: the version of a row that may not have come to the tier yet.
	Reserve(ctx context.Context, ks []Key, above Version) ([]Reservation, error)
}

// Snapshotter shows the store as it is at one instant.
type Snapshotter interface {
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Snapshot is a store at one instant, but for expiry: records expire in it too.
// It has to be closed soon, since it may keep the store from tidying up; the
// end of the context that it was made with ends it as well.
type Snapshot interface {
	Load(ctx context.Context, k Key) (Record, error)
	LoadMany(ctx context.Context, ks []Key) ([]Record, error)
	List(ctx context.Context, q Query) iter.Seq2[Record, error]
	Close() error
}

// Digest sums up a listing: keys and versions in the order in which they come.
// The zero value is that of an empty one.
type Digest struct {
	sum uint64
	n   uint64
}

// Add adds the next record.
func (d *Digest) Add(name string, v Version) {
	h := fnv.New64a()
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(d.sum>>(8*i)), byte(uint64(v)>>(8*i)) //nolint:gosec // a byte each
	}
	_, _ = h.Write(b[:]) // never fails
	_, _ = h.Write([]byte(name))
	d.sum = h.Sum64()
	d.n++
}

// Sum answers the sum; that of no records is 0.
func (d *Digest) Sum() uint64 {
	if d.n == 0 {
		return 0
	}
	return d.sum | 1
}
