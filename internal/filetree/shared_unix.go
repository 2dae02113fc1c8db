//go:build unix

package filetree

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapShared maps the beginning of a file that is at least that long. Writing to
// it, unlike to the file, does not change the file's times, and so never waits
// for the file system's journal.
func mapShared(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmapShared(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}
