//go:build unix

package filetree

import "os"

func syncDir(f *os.File) error { return f.Sync() }
