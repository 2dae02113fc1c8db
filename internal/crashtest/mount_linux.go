package crashtest

import "golang.org/x/sys/unix"

func mount(dir, size string) error {
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size="+size)
}

func unmount(dir string) error { return unix.Unmount(dir, 0) }
