package filetree

import "os"

// syncDir does nothing: Windows has no fsync of a directory, and NTFS logs
// renames.
func syncDir(*os.File) error { return nil }
