//go:build unix

package filetree

import "os"

// SyncDir makes the entries of an open directory durable.
func SyncDir(f *os.File) error { return f.Sync() }
