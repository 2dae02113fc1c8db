package main

import (
	"os"
	"path/filepath"
)

// rawFileSave is the textbook way to replace a file durably: a temporary file
// beside it, fsync, rename, fsync of the directory.
func rawFileSave(dir, key string, v []byte) error {
	f, err := os.CreateTemp(dir, "tmp-*")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(v); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, key)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
