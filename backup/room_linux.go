package backup

import (
	"os"
	"syscall"
)

// roomAt answers how much room there is for this user where the path is.
func roomAt(path string) (s space, ok bool) {
	var st syscall.Statfs_t
	fi, err := os.Stat(path)
	if err != nil || syscall.Statfs(path, &st) != nil {
		return space{}, false
	}
	on, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return space{}, false
	}
	return space{free: int64(st.Bavail) * st.Bsize, disk: on.Dev}, true //nolint:gosec // both are positive
}
