package conflict_test

import (
	"errors"
	"testing"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

func TestAConflictSaysWhatItIsAndMatchesTheSentinel(t *testing.T) {
	err := tiers.Hint(conflict.Errorf("process %d is at work", 7), "wait")
	if got := err.Error(); got != "conflict: process 7 is at work (wait)" {
		t.Errorf("it says %q", got)
	}
	if !errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrExists) {
		t.Errorf("%v matches the wrong sentinels", err)
	}
}
