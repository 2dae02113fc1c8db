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
