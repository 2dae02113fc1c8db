//go:build !unix

package manager

// deviceOf answers no file system where there is no number for it.
func deviceOf(string) (device uint64, ok bool) { return 0, false }
