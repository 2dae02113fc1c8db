package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// IsAnswer tells whether an error is an answer about what is stored, rather than a
// failure.
func IsAnswer(err error) bool {
	return errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrExists) ||
		errors.Is(err, tiers.ErrNotFound) || errors.Is(err, context.Canceled)
}

// Unknown is the error of a commit whose outcome is not known.
func Unknown(cause error) error {
	return fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, cause)
}

// Over answers why a context ended, or nil.
func Over(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
