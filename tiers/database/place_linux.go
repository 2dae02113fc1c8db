package database

import "golang.org/x/sys/unix"

// networkKind names the network file system that holds dir, "" for a local one.
// The numbers are those of statfs(2).
func networkKind(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	switch uint32(st.Type) { //nolint:gosec // the kernel's magic numbers have 32 bits
	case 0x6969:
		return "NFS", nil
	case 0x517b, 0xfe534d42, 0xff534d42:
		return "SMB", nil
	case 0x5346414f, 0x6b414653:
		return "AFS", nil
	case 0x73757245:
		return "Coda", nil
	case 0x564c:
		return "NCP", nil
	case 0x00c36400:
		return "Ceph", nil
	case 0x0bd00bd0:
		return "Lustre", nil
	case 0x01161970:
		return "GFS2", nil
	case 0x7461636f:
		return "OCFS2", nil
	case 0x47504653:
		return "GPFS", nil
	}
	return "", nil
}

// room answers the bytes that are free on the disk of dir, and its size.
func room(dir string) (free, size uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	block := uint64(st.Bsize) //nolint:gosec // never negative
	return st.Bavail * block, st.Blocks * block, nil
}
