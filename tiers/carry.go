package tiers

import (
	"context"
	"iter"
	"time"
)

// Carrier is a store whose books can be carried to one of another engine. Facts,
// sessions and records are read by what [System] and [Tier] have for that, and records
// come by [Applier]. It is for stores that nobody else uses meanwhile.
type Carrier interface {
	// Marks answers how far the store has counted.
	Marks(ctx context.Context) (Marks, error)
	// Queue answers up to limit rows of the journal of all tiers, in order of Seq,
	// beginning after one.
	Queue(ctx context.Context, after uint64, limit int) ([]Row, error)
	// Decisions yields the transactions that [Committer] knows to be committed, each
	// once, in bytewise order of the id.
	Decisions(ctx context.Context) iter.Seq2[Decision, error]
	// TakeOver stores what another store has kept, all or nothing. Sessions and
	// decisions take the place of those with the same id, and keep all they have.
	// Rows do too, but come in order of Seq and above all that the journal has had,
	// and for keys that no row waits for: anything else is ErrConflict. Marks are
	// raised, and never lowered; when Sequence is, no transaction can be committed
	// any more that has read another tier before.
	TakeOver(ctx context.Context, b Books) error
}

// Books are what a store keeps beside records and facts, or a part of that.
type Books struct {
	Sessions  []Session
	Decisions []Decision
	Rows      []Row
	Marks     Marks
}

// Marks are how far a store has counted.
type Marks struct {
	Version  Version            // none above was issued
	Sequence uint64             // the highest Seq that any row of the journal ever had, or more
	Sessions uint64             // the highest Seq of a session
	Issued   map[string]Version // the highest version that the journal has issued for a tier
}

// Decision is a transaction that was committed.
type Decision struct {
	ID string
	At time.Time // in whole seconds
}
