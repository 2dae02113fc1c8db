package filetree

import "os"

// SyncDir does nothing: Windows has no fsync of a directory, and NTFS logs
// renames.
func SyncDir(*os.File) error { return nil }
