//go:build linux

package main

import "golang.org/x/sys/unix"

// limitFiles makes every write beyond that size of a file fail.
func limitFiles(size int64) error {
	n := uint64(size) //nolint:gosec // it is positive
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: n})
}
