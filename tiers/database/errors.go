package database

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sagestore/sagestore/tiers"
)

// tierName is what errors call this tier.
const tierName = "database"

// codeOf answers the primary result code of an error of SQLite's, 0 for any
// other error.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// busy tells whether another connection is in the way for a moment.
func busy(err error) bool {
	switch codeOf(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// plain gives an error of SQLite's or of the system the sentinel and the hint that
// fit. Errors of other kinds stay as they are, and so do those that have one: the
// outcome of a commit is unknown, not unavailable, though the disk is the reason.
func (t *Tier) plain(err error) error {
	for _, known := range []error{
		tiers.ErrCommitUnknown, tiers.ErrUnavailable, tiers.ErrFull, tiers.ErrCorrupt, tiers.ErrReadOnly, tiers.ErrTooLarge,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	switch codeOf(err) {
	case 0:
		return ofSystem(err, t.place)
	case sqlite3.SQLITE_FULL:
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrFull, err), "make room on the disk that holds "+t.place)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrCorrupt, err), "the file "+t.place+" is damaged: restore a backup")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrReadOnly, err), "check who owns "+t.place+" and its directory")
	case sqlite3.SQLITE_TOOBIG:
		return fmt.Errorf("%w: %w", tiers.ErrTooLarge, err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH:
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrUnavailable, err), "check that "+t.place+" is there and may be read and written")
	case sqlite3.SQLITE_IOERR:
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrUnavailable, err), "check the disk that holds "+t.place)
	}
	if busy(err) {
		return tiers.Hint(fmt.Errorf("%w: another program holds a lock: %w", tiers.ErrUnavailable, err),
			"end the program that keeps a transaction open on "+t.place)
	}
	return err
}

// ofSystem is about files beside the database, and about its directory.
func ofSystem(err error, place string) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrReadOnly, err),
			"the file system of "+place+" is mounted read-only: mount it for writing, or choose another path")
	case errors.Is(err, syscall.ENOSPC):
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrFull, err), "make room on the disk that holds "+place)
	case errors.Is(err, fs.ErrPermission):
		return tiers.Hint(err, "check who owns "+place+" and its directory")
	}
	return err
}

// fail completes an error with operation and key.
func (t *Tier) fail(op string, k tiers.Key, err error) error {
	if err == nil {
		return nil
	}
	return tiers.Fail(op, tierName, k, t.plain(err))
}
