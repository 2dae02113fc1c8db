package main

import (
	"os"
	"path/filepath"
)

// refuseUnloaded refuses --restored for what came from PostgreSQL: its copy lies there as a
// text that a server has to load, and an empty store would be made beside it.
func refuseUnloaded(dir string) error {
	if dir == "" {
		return nil
	}
	text := filepath.Join(dir, "sage.postgres")
	_, err := os.Lstat(text)
	there := err == nil
	if !there { // not from there, or whatever opens the store says why
		return nil
	}
	return usagef("to look at it, name another postgres.schema, which nothing is in, in a second configuration, and restore into that: `sagestore backup restore ID --config CONFIG --data-dir DIR --destination PLACE --stopped`, see docs/OPERATIONS.md",
		"--restored: the database of that backup is on PostgreSQL, and %s is no store but a text to be loaded", text)
}
