//go:build !linux

package database

import "errors"

// networkKind would name a network file system; only Linux tells one here.
func networkKind(string) (string, error) { return "", nil }

// room would answer what is free on a disk.
func room(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }
