package engine

import (
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// CheckSwitch refuses moves from or to what is no space, and rows that no journal could
// hold.
func CheckSwitch(moves []tiers.Move, rows []tiers.RowMove) error {
	all := make([]tiers.Space, 0, 2*len(moves)+3*len(rows))
	for _, m := range moves {
		all = append(all, m.From, m.To)
	}
	for _, m := range rows {
		all = append(all, m.From, m.Gone, m.To)
		if m.Tier == "" {
			return fmt.Errorf("%w: rows of a switch name no tier", tiers.ErrKey)
		}
		if m.Version == 0 || m.Version > highest {
			return fmt.Errorf("%w: rows of a switch come with the impossible version %d", tiers.ErrCorrupt, m.Version)
		}
	}
	for _, s := range all {
		if err := s.Check(); err != nil {
			return tiers.Fail("switch", "", tiers.Key{Namespace: s.Namespace, Category: s.Category}, err)
		}
	}
	return nil
}

// Whole is everything of the space to which a row move goes, as what was read of it.
func Whole(m *tiers.RowMove) tiers.RowRange {
	return tiers.RowRange{Tier: m.Tier, Range: tiers.Range{Query: tiers.Query{Namespace: m.To.Namespace, Category: m.To.Category}}}
}
