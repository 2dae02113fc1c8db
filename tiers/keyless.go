package tiers

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Keyless answers the text of an error without the keys that it and those that it wraps
// name: for logs, notices and endpoints, where keys do not belong. Of what is about a key
// it leaves what was done and the kind of the cause, and of a text that repeats one
// elsewhere the kind alone. An error that names none it leaves as it is.
func Keyless(err error) string {
	whole := err.Error()
	text, rest := whole, whole
	all := keyed(err)
	for _, e := range all {
		text = strings.ReplaceAll(text, e.Error(), e.keyless())
		rest = strings.ReplaceAll(rest, e.Error(), "")
	}
	if slices.ContainsFunc(all, func(e *Error) bool { return !strings.Contains(whole, e.Error()) || repeats(rest, e.Key) }) {
		return kindOf(err).Error()
	}
	return text
}

// keyed answers the outermost errors that name a key.
func keyed(err error) (all []*Error) {
	if e, ok := err.(*Error); ok && e.Key != "" { //nolint:errorlint // all that are wrapped are looked at
		return []*Error{e}
	}
	switch err := err.(type) { //nolint:errorlint // see above
	case interface{ Unwrap() error }:
		return keyed(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			all = append(all, keyed(one)...)
		}
	}
	return all
}

// keyless is the text without what may name the key.
func (e *Error) keyless() string {
	plain := &Error{Op: e.Op, Tier: e.Tier, Category: e.Category, Err: kindOf(e.Err)}
	if !repeats(e.Hint, e.Key) {
		plain.Hint = e.Hint
	}
	return plain.Error()
}

// repeats tells whether a text has the key, as it is or quoted.
func repeats(text, key string) bool {
	quoted := strconv.Quote(key)
	return strings.Contains(text, key) || strings.Contains(text, quoted[1:len(quoted)-1])
}

var errUnknownKind = errors.New("its cause may name a key")

// kindOf answers what of an error names nothing: a sentinel or a system's error.
func kindOf(err error) error {
	for _, kind := range []error{
		ErrNotFound, ErrExists, ErrConflict, ErrTooLarge, ErrFull, ErrCorrupt, ErrUnavailable, ErrClosed, ErrKey, ErrCategory, ErrType,
		ErrCodec, ErrSchema, ErrUnsupported, ErrReadOnly, ErrSessionEnded, ErrTxDone, ErrTxAborted, ErrCommitUnknown, fs.ErrPermission,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	if system, ok := errors.AsType[syscall.Errno](err); ok {
		return system
	}
	return errUnknownKind
}
