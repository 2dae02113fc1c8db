//go:build unix && !linux

package filetree

import "os"

func (h *handle) open(root *os.Root, path string) (*handle, error) { return rootHandle(root, path) }

// exchange is not known here.
func (h *handle) exchange(string, string) (ok bool, err error) { return false, nil }

// renameNew is not known here.
func (h *handle) renameNew(string, string) (ok bool, err error) { return false, nil }
