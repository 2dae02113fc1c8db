package engine

import (
	"fmt"
	"iter"

	"github.com/sagestore/sagestore/tiers"
)

// highest bounds what a store counts: no clock gets there, and there is room to go on.
const highest = 1 << 60

// checkMarks refuses marks above which a store could not go on counting.
func checkMarks(m tiers.Marks) error {
	if m.Version > highest || m.Sequence > highest || m.Sessions > highest {
		return fmt.Errorf("%w: the impossible marks %d, %d and %d", tiers.ErrCorrupt, m.Version, m.Sequence, m.Sessions)
	}
	for tier, v := range m.Issued {
		if tier == "" || v > highest {
			return fmt.Errorf("%w: the impossible mark %d of tier %q", tiers.ErrCorrupt, v, tier)
		}
	}
	return nil
}

// CheckSession refuses what is no name of a session.
func CheckSession(namespace, id string) error {
	if err := tiers.CheckNamespace(namespace); err != nil {
		return err
	}
	return tiers.CheckName(id)
}

// CheckBooks refuses books that no store has had. Engines differ in the ids of
// transactions and in the rows that they take.
func CheckBooks(b *tiers.Books, checkID func(id string) error, checkRow func(r *tiers.Row) error) error {
	for _, s := range b.Sessions {
		if err := CheckSession(s.Namespace, s.ID); err != nil {
			return err
		}
	}
	for _, d := range b.Decisions {
		if err := checkID(d.ID); err != nil {
			return err
		}
	}
	for i := range b.Rows {
		if err := checkRow(&b.Rows[i]); err != nil {
			return err
		}
	}
	return checkMarks(b.Marks)
}

// Decisions yields page by page, each of which begins after an id, until one is empty.
func Decisions(page func(after string) ([]tiers.Decision, error)) iter.Seq2[tiers.Decision, error] {
	return func(yield func(tiers.Decision, error) bool) {
		for last := ""; ; {
			all, err := page(last)
			if err != nil {
				yield(tiers.Decision{}, err)
				return
			}
			for _, d := range all {
				if !yield(d, nil) {
					return
				}
			}
			if len(all) == 0 {
				return
			}
			last = all[len(all)-1].ID
		}
	}
}
