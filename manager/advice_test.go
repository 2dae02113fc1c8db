package manager

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// What is unknown is never said to have changed nothing, whatever else is true of it.
func TestAdviceDoesNotSayMoreThanIsKnown(t *testing.T) {
	unknown := fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, tiers.ErrUnavailable)
	for _, err := range []error{unknown, errors.Join(tiers.ErrUnavailable, tiers.ErrCommitUnknown)} {
		var e *tiers.Error
		if got := advise(tiers.Fail("save", "cache", tiers.Key{Name: "k"}, err)); !errors.As(got, &e) || !strings.Contains(e.Hint, "see whether it was stored") {
			t.Errorf("%v: the hint is %q", err, e.Hint)
		}
	}
}
