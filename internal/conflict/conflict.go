// Package conflict makes errors that are tiers.ErrConflict and are not about the version
// of a record, which the text of that one speaks of.
package conflict

import (
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// Errorf answers an error that says what is in conflict with what, as fmt.Sprintf puts
// it. It matches tiers.ErrConflict by errors.Is, and has nothing else below it.
func Errorf(format string, args ...any) error { return failure(fmt.Sprintf(format, args...)) }

type failure string

func (f failure) Error() string        { return "conflict: " + string(f) }
func (f failure) Is(target error) bool { return target == tiers.ErrConflict }
