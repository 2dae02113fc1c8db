package main

import (
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// The exit codes, which docs/CLI.md documents.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
)

// usageError is a command that can't be carried out as it was written.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(hint, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: hint}
}

// silent ends with a code without another word: what there is to say has been
// said.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit %d", int(s)) }

// exitCode answers the code for an error.
func exitCode(err error) int {
	var quiet silent
	var usage *usageError
	var faults config.Errors
	var fault *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &usage), errors.As(err, &faults), errors.As(err, &fault),
		errors.Is(err, tiers.ErrKey), errors.Is(err, tiers.ErrCategory):
		return exitUsage
	case errors.Is(err, tiers.ErrUnavailable):
		return exitUnavailable
	case errors.Is(err, tiers.ErrNotFound):
		return exitNotFound
	case errors.Is(err, tiers.ErrExists), errors.Is(err, tiers.ErrConflict), errors.Is(err, tiers.ErrSessionEnded):
		return exitConflict
	}
	return exitFailed
}
