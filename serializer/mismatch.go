package serializer

import (
	"reflect"

	"github.com/sagestore/sagestore/tiers"
)

// mismatch is a stored value that is not what the caller's type wants: tiers.ErrType. Its
// text names Go types, for programmers; commands and tools have other words for what
// Misfit answers.
type mismatch struct {
	text   string
	field  string // the path to it, "" for the whole
	value  string // what is stored, as encoding/json calls it, "" if that is not known
	wanted reflect.Type
	err    error // of the library, or nil
}

func (m *mismatch) Error() string { return tiers.ErrType.Error() + ": " + m.text }

func (m *mismatch) Unwrap() []error {
	if m.err == nil {
		return []error{tiers.ErrType}
	}
	return []error{tiers.ErrType, m.err}
}

// Misfit answers what is stored, as far as that is known, and what is wanted.
func (m *mismatch) Misfit() (field, value string, wanted reflect.Type) {
	return m.field, m.value, m.wanted
}
