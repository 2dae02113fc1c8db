package engine

import (
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// highest bounds what a store counts: no clock gets there, and there is room to go on.
const highest = 1 << 60

// CheckMarks refuses marks above which a store could not go on counting.
func CheckMarks(m tiers.Marks) error {
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
