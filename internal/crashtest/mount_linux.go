package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func mount(dir, size string) error {
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size="+size)
}

// unmount answers with an error also who has what open below dir.
func unmount(dir string) error {
	err := unix.Unmount(dir, 0)
	if err == nil {
		return nil
	}
	return fmt.Errorf("unmount %s: %w; process %d asked, and open below are %q", dir, err, os.Getpid(), open(dir))
}

// open lists the links of /proc to what is open or mapped below dir, of any process.
func open(dir string) (held []string) {
	for _, pattern := range []string{"/proc/[0-9]*/fd/*", "/proc/[0-9]*/map_files/*", "/proc/[0-9]*/cwd"} {
		links, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, dir) {
				held = append(held, l+" "+to)
			}
		}
	}
	return held
}
