package filetree

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt answers when the file, or one of its names, was last changed. Unlike the
// modification time nobody can set it.
func changedAt(fi fs.FileInfo) time.Time {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return fi.ModTime()
}
