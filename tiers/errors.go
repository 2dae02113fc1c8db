package tiers

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
)

// Every sentinel of the module, matched with [errors.Is].
var (
	ErrNotFound      = error(notFoundError{}) // also fs.ErrNotExist
	ErrExists        = errors.New("already exists")
	ErrConflict      = errors.New("conflict: another version is stored")
	ErrTooLarge      = errors.New("too large")
	ErrFull          = errors.New("full")
	ErrCorrupt       = errors.New("corrupt")
	ErrUnavailable   = errors.New("unavailable") // nothing was sent, nothing was changed
	ErrClosed        = errors.New("closed")
	ErrKey           = errors.New("invalid key")
	ErrCategory      = errors.New("unknown or invalid category")
	ErrType          = errors.New("wrong type")
	ErrCodec         = errors.New("codec can't be used")
	ErrSchema        = errors.New("newer schema")
	ErrUnsupported   = errors.New("unsupported")
	ErrReadOnly      = errors.New("read-only")
	ErrSessionEnded  = errors.New("session has ended")
	ErrTxDone        = errors.New("transaction is over")
	ErrTxAborted     = errors.New("transaction was aborted")
	ErrCommitUnknown = errors.New("outcome unknown: it may or may not have been stored")
)

type notFoundError struct{}

func (notFoundError) Error() string        { return "not found" }
func (notFoundError) Is(target error) bool { return target == fs.ErrNotExist }

// Error says which operation failed on what. Err wraps a sentinel where one
// fits; Hint says what to do next.
type Error struct {
	Op        string // save, load, delete, ...
	Tier      string
	Namespace string
	Category  string
	Key       string
	Tx        string // id of the transaction, where there was one
	Hint      string
	Err       error
}

// Error puts the whole into one line, and the beginning only of a key that is
// longer than MaxKey.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Category != "" {
		b.WriteByte(' ')
		b.WriteString(e.Category)
	}
	if len(e.Key) > MaxKey {
		fmt.Fprintf(&b, " %q...", e.Key[:64])
	} else if e.Key != "" {
		fmt.Fprintf(&b, " %q", e.Key)
	}
	if e.Namespace != "" {
		fmt.Fprintf(&b, " in namespace %s", e.Namespace)
	}
	if e.Tier != "" {
		fmt.Fprintf(&b, " (%s)", e.Tier)
	}
	if e.Tx != "" {
		fmt.Fprintf(&b, " in transaction %s", e.Tx)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return strings.TrimLeft(b.String(), " :")
}

// Unwrap answers the cause.
func (e *Error) Unwrap() error { return e.Err }

// LogValue leaves the key out: keys do not belong in logs. Of a cause that repeats the
// key only its kind is left; what it names itself is left out as by [Keyless].
func (e *Error) LogValue() slog.Value {
	cause := "see the returned error"
	switch {
	case e.Err == nil:
	case e.Key != "" && repeats(e.Err.Error(), e.Key):
		if kind := kindOf(e.Err); kind != errUnknownKind { //nolint:errorlint // it is that one itself
			cause = kind.Error()
		}
	default:
		cause = Keyless(e.Err)
	}
	return slog.GroupValue(slog.String("op", e.Op), slog.String("tier", e.Tier),
		slog.String("category", e.Category), slog.String("cause", cause))
}

// Fail wraps err, unless it is nil, in an *Error for one key. What err already
// says as an *Error is kept and only completed.
func Fail(op, tier string, k Key, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Tier: tier, Namespace: k.Namespace, Category: k.Category, Key: k.Name, Err: err}
	if inner, ok := err.(*Error); ok { //nolint:errorlint // only an outermost *Error is completed rather than wrapped
		done := *inner
		if done.Op == "" {
			done.Op = op
		}
		if done.Tier == "" {
			done.Tier = tier
		}
		if done.Category == "" && done.Key == "" {
			done.Namespace, done.Category, done.Key = k.Namespace, k.Category, k.Name
		}
		e = &done
	}
	return e
}

// Hint attaches to err what to do next; it does not replace an earlier hint.
func Hint(err error, hint string) error {
	if err == nil {
		return nil
	}
	if inner, ok := err.(*Error); ok { //nolint:errorlint // only an outermost *Error is completed rather than wrapped
		done := *inner
		if done.Hint == "" {
			done.Hint = hint
		}
		return &done
	}
	return &Error{Hint: hint, Err: err}
}
