//go:build unix

package manager

import (
	"os"
	"syscall"
)

// deviceOf answers the file system that a path is on.
func deviceOf(path string) (device uint64, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(s.Dev), true //nolint:unconvert // its type differs between systems
}
