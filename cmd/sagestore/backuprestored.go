package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// unloaded is what the copy of a database on PostgreSQL is unpacked as.
const unloaded = "sage.postgres"

// tellUnloaded says what can be done with a database on PostgreSQL that was restored
// beside: it is no store, and --restored refuses it.
func (a *app) tellUnloaded(id, place, dest string) {
	if filepath.Base(place) != unloaded {
		return
	}
	dir := filepath.Dir(place)
	_, _ = fmt.Fprintf(a.err, "sagestore: the database of that backup is on PostgreSQL: %s is a text for a server, and --restored %s can't be used\n"+
		"hint: to look at it, write drill.yaml, a copy of the configuration with another postgres.schema, which nothing is in, and without data_dir, and run "+
		"`sagestore backup restore %s --config drill.yaml --data-dir %s-loaded --destination %s --stopped`, see docs/OPERATIONS.md\n", place, dir, id, dir, dest)
}

// refuseUnrestored refuses --restored for a directory that no backup was restored into, since
// an empty store would be made there and answer that nothing is in the backup. What came
// from PostgreSQL lies there as a text that a server has to load.
func refuseUnrestored(dir string) error {
	if dir == "" {
		return nil
	}
	text := filepath.Join(dir, unloaded)
	if _, err := os.Lstat(text); err == nil {
		return usagef("to look at it, name another postgres.schema, which nothing is in, in a second configuration, and restore into that: `sagestore backup restore ID --config CONFIG --data-dir DIR --destination PLACE --stopped`, see docs/OPERATIONS.md",
			"--restored: the database of that backup is on PostgreSQL, and %s is no store but a text to be loaded", text)
	}
	store := filepath.Join(dir, "sage.db")
	_, err := os.Lstat(store)
	if missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR); !missing {
		return nil // whatever opens the store says what else is wrong
	}
	return usagef("name the directory that `sagestore backup restore ID --to DIR` was given",
		"--restored: %s is not there, so no backup was restored into %s", store, dir)
}
