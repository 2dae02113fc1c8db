package engine

import (
	"errors"
	"fmt"
)

// ItemErrors are the errors of single items of a batch, each with its key.
type ItemErrors []error

func (e ItemErrors) Error() string { return errors.Join(e...).Error() }

// Unwrap answers the errors.
func (e ItemErrors) Unwrap() []error { return e }

// Each calls fn for every item and joins the errors of those that failed as
// [ItemErrors]. An error for which ends answers yes is not one of an item, and ends it;
// a nil ends answers no.
func Each(n int, ends func(err error) bool, fn func(i int) error) error {
	var errs ItemErrors
	for i := range n {
		err := fn(i)
		switch {
		case err == nil:
		case ends != nil && ends(err):
			return err
		default:
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// Aligned refuses conditions that are neither none nor one for each item.
func Aligned(items, conds int) error {
	if conds != 0 && conds != items {
		return fmt.Errorf("%d conditions for %d items: give none, or one for each", conds, items)
	}
	return nil
}
