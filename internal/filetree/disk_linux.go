package filetree

import "golang.org/x/sys/unix"

// diskOf asks the system. The numbers are those of statfs(2).
func diskOf(path string) (Disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Disk{}, err
	}
	d := Disk{
		Free: st.Bavail * uint64(st.Bsize), //nolint:gosec // block sizes are positive
		Size: st.Blocks * uint64(st.Bsize), //nolint:gosec // block sizes are positive
	}
	switch uint32(st.Type) { //nolint:gosec // the numbers have 32 bits
	case unix.NFS_SUPER_MAGIC:
		d.Kind, d.Network = "nfs", true
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		d.Kind, d.Network = "smb", true
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		d.Kind, d.Network = "afs", true
	case unix.CODA_SUPER_MAGIC:
		d.Kind, d.Network = "coda", true
	case unix.V9FS_MAGIC:
		d.Kind, d.Network = "9p", true
	case unix.CEPH_SUPER_MAGIC:
		d.Kind, d.Network = "ceph", true
	case unix.FUSE_SUPER_MAGIC:
		d.Kind = "fuse"
	case unix.TMPFS_MAGIC:
		d.Kind = "tmpfs"
	case unix.EXT4_SUPER_MAGIC:
		d.Kind = "ext4"
	case unix.XFS_SUPER_MAGIC:
		d.Kind = "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		d.Kind = "btrfs"
	}
	return d, nil
}
