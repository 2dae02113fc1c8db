//go:build !linux

package filetree

import (
	"io/fs"
	"time"
)

// changedAt answers when the file was last modified, as it says.
func changedAt(fi fs.FileInfo) time.Time { return fi.ModTime() }
