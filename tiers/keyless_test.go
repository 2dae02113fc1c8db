package tiers_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// secondError answers something else than what the error that it wraps says.
type secondError struct{ error }

func (e secondError) Error() string { return "in other words: " + someKey.Name }
func (e secondError) Unwrap() error { return e.error }

func TestATextWithoutKeysSaysWhatElseTheErrorSays(t *testing.T) {
	load := tiers.Fail("load", "file", someKey, fmt.Errorf("open /data/%s.json: %w", someKey.Name, fs.ErrPermission))
	quoted := tiers.Key{Category: "config", Name: "a\nb"}
	for _, c := range []struct {
		why  string
		err  error
		want string
	}{
		{"no key", fmt.Errorf("part database: %w", tiers.Hint(tiers.ErrFull, "make room")), "part database: full (make room)"},
		{"no error of a tier", errors.New("it broke"), "it broke"},
		{"a key", load, "load session.preferences (file): permission denied"},
		{"a key within", fmt.Errorf("part file: %w", &tiers.Error{Op: "verify", Err: load}), "part file: verify: load session.preferences (file): permission denied"},
		{"a hint", tiers.Hint(load, "see who owns it"), "load session.preferences (file): permission denied (see who owns it)"},
		{"a hint with the key", tiers.Hint(load, "look at "+someKey.Name), "load session.preferences (file): permission denied"},
		{"a system's error", tiers.Fail("save", "file", someKey, &fs.PathError{Op: "open", Path: "/x", Err: syscall.EMFILE}), "save session.preferences (file): too many open files"},
		{"a cause that is not known", tiers.Fail("save", "file", someKey, errors.New("user-4")), "save session.preferences (file): its cause may name a key"},
		{"two keys", errors.Join(load, tiers.Fail("save", "file", quoted, tiers.ErrFull)), "load session.preferences (file): permission denied\nsave config (file): full"},
		{"who wraps it repeats the key", fmt.Errorf("record %s: %w", someKey.Name, load), "permission denied"},
		{"who wraps it quotes the key", fmt.Errorf("record %q: %w", quoted.Name, tiers.Fail("save", "file", quoted, tiers.ErrFull)), "full"},
		{"who wraps it says it otherwise", secondError{tiers.Fail("load", "", someKey, tiers.ErrNotFound)}, "not found"},
	} {
		if got := tiers.Keyless(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}
