//go:build !unix

package filetree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// handle is an open directory.
type handle struct{ root *os.Root }

func rootHandle(root *os.Root, path string) (*handle, error) {
	sub, err := root.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &handle{root: sub}, nil
}

func openDirectory(root *os.Root, path string) (*os.File, error) { return root.Open(path) }

func (h *handle) open(root *os.Root, path string) (*handle, error) { return rootHandle(root, path) }

func (h *handle) close() error { return h.root.Close() }

func identOf(fi fs.FileInfo) Ident {
	return Ident{Regular: fi.Mode().IsRegular(), Size: fi.Size(), ModTime: fi.ModTime()}
}

func (h *handle) self() (Ident, error) { return h.stat(".") }

func (h *handle) stat(name string) (Ident, error) {
	fi, err := h.root.Lstat(name)
	if err != nil {
		return Ident{}, err
	}
	return identOf(fi), nil
}

func (h *handle) read(name string, limit, most int64) (content []byte, as Ident, err error) {
	f, err := h.root.Open(name)
	if err != nil {
		return nil, Ident{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil, Ident{}, err
	}
	if limit < 0 {
		if fi.Size() > most {
			return nil, identOf(fi), tooLarge(name, fi.Size(), most)
		}
		limit = most
	}
	content, err = io.ReadAll(io.LimitReader(f, limit))
	return content, identOf(fi), err
}

// temp is a file that is being written.
type temp struct{ *os.File }

func (h *handle) create(name string, content []byte, mtime time.Time) (t *temp, err error) {
	f, err := h.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(content); err == nil {
		err = h.root.Chtimes(name, mtime, mtime)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), h.remove(name))
	}
	return &temp{f}, nil
}

func (t *temp) sync() error { return t.Sync() }

func (t *temp) close() error { return t.Close() }

// sync has nothing to do: there is no fsync of a directory here.
func (h *handle) sync() error { return nil }

func (h *handle) remove(name string) error { return h.root.Remove(name) }

func (h *handle) rename(from, to string) error { return h.root.Rename(from, to) }

// exchange is not known here.
func (h *handle) exchange(string, string) (ok bool, err error) { return false, nil }

// renameNew is not known here.
func (h *handle) renameNew(string, string) (ok bool, err error) { return false, nil }
