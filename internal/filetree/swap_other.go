//go:build !linux

package filetree

import "os"

// exchange is not known here.
func exchange(*os.File, string, string) (ok bool, err error) { return false, nil }

// renameNew is not known here.
func renameNew(*os.File, string, string) (ok bool, err error) { return false, nil }
