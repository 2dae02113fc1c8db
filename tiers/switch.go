package tiers

import "context"

// Switcher puts spaces in the place of others, all at once: what was prepared aside
// becomes what everybody sees.
type Switcher interface {
	// Switch replaces all records of the To of each move by those of its From, which
	// is empty afterwards, in one step that survives a crash whole or not at all. The
	// records keep all but their version, which becomes one that no record of the tier
	// had; what was read before does conflict therefore. A From without records
	// leaves its To empty. It answers how many records each move brought, and how
	// many it replaced.
	Switch(ctx context.Context, moves []Move) ([]Moved, error)
}

// Move is from where to where.
type Move struct{ From, To Space }

// Moved is what a move has done.
type Moved struct{ Brought, Replaced int64 }

// RowSwitcher is a [Switcher] of a store that offers [System], and puts spaces in the
// place of those of other tiers in the same step, by rows of the journal.
type RowSwitcher interface {
	Switcher
	// SwitchRows carries out moves as Switch does, and in the same step stores a row for
	// each record of the From of each row move, and a row that deletes for each key that
	// is in its Gone and not in its From; they replace rows that wait for these keys.
	// From and Gone stay as they are. Records keep all but their version, which is that of
	// the move. Such rows do not count for what may wait for a tier. ErrConflict: a row of
	// To has come since, and nothing was done. It answers what the moves did, and how many
	// records each row move brought.
	SwitchRows(ctx context.Context, moves []Move, rows []RowMove) (moved []Moved, brought []int64, err error)
}

// RowMove is from which spaces of the store to which one of another tier.
type RowMove struct {
	From    Space // what comes
	Gone    Space // the keys of what was there; the values do not matter
	To      Space
	Tier    string // that To is of
	Owner   string // of the rows
	Version Version
	Since   uint64 // the [Committer.Sequence] from before Version was issued and To was listed
}
