package filetree

// Disk is what the system says of the file system that a path is on.
type Disk struct {
	Kind    string // empty: unknown
	Network bool
	Free    uint64 // bytes for this user
	Size    uint64 // bytes; 0: unknown
}
