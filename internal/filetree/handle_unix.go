//go:build unix

package filetree

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// handle is an open directory.
type handle struct{ fd int }

// retry does a call again when a signal interrupted it.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

// openDirectory opens a directory to read its names. What is none is an error
// at once: opening a pipe would wait for somebody to write.
func openDirectory(root *os.Root, path string) (*os.File, error) {
	return root.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// rootHandle opens the same directory through its os.Root, which watches over
// the path where the system can't.
func rootHandle(root *os.Root, path string) (*handle, error) {
	f, err := openDirectory(root, path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err = errors.Join(failed("dup", path, err), f.Close()); err != nil {
		return nil, err
	}
	return &handle{fd: fd}, nil
}

func (h *handle) close() error { return unix.Close(h.fd) }

func identOf(st *unix.Stat_t) Ident {
	return Ident{
		Regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
		Size:    st.Size,
		ModTime: time.Unix(st.Mtim.Unix()),
		dev:     uint64(st.Dev), //nolint:unconvert // its type differs between systems
		ino:     st.Ino,
	}
}

// self answers the directory's own state.
func (h *handle) self() (Ident, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(h.fd, &st) })
	return identOf(&st), failed("stat", ".", err)
}

// stat looks at a name and does not follow links.
func (h *handle) stat(name string) (Ident, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(h.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return Ident{}, failed("stat", name, err)
	}
	return identOf(&st), nil
}

// read answers up to limit bytes of a regular file; a negative limit is the
// whole file, unless it has more than most bytes.
func (h *handle) read(name string, limit, most int64) (content []byte, as Ident, err error) {
	fd := -1
	err = retry(func() (err error) {
		fd, err = unix.Openat(h.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, Ident{}, failed("open", name, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, Ident{}, failed("stat", name, err)
	}
	as = identOf(&st)
	if !as.Regular {
		return nil, as, nil
	}
	if limit < 0 {
		if as.Size > most {
			return nil, as, tooLarge(name, as.Size, most)
		}
		limit = most
	}
	// One byte more than there is: a short read then says that this was all.
	buf := make([]byte, 0, min(limit, as.Size)+1)
	for int64(len(buf)) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		room := buf[len(buf):cap(buf)]
		n := 0
		if err := retry(func() (err error) { n, err = unix.Read(fd, room); return err }); err != nil {
			return nil, as, failed("read", name, err)
		}
		buf = buf[:len(buf)+n]
		if n < len(room) {
			break
		}
	}
	return buf[:min(int64(len(buf)), limit)], as, nil
}

// temp is a file that is being written.
type temp struct{ fd int }

// create makes a file of that content and modification time; the name must be
// free. A file that could not be written is removed again.
func (h *handle) create(name string, content []byte, mtime time.Time) (_ *temp, err error) {
	fd := -1
	err = retry(func() (err error) {
		fd, err = unix.Openat(h.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, failed("create", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd), h.remove(name))
		}
	}()
	for len(content) > 0 {
		n := 0
		if err := retry(func() (err error) { n, err = unix.Write(fd, content); return err }); err != nil {
			return nil, failed("write", name, err)
		}
		content = content[n:]
	}
	at, err := unix.TimeToTimespec(mtime)
	if err == nil {
		times := []unix.Timespec{at, at}
		err = retry(func() error { return unix.UtimesNanoAt(h.fd, name, times, unix.AT_SYMLINK_NOFOLLOW) })
	}
	if err != nil {
		return nil, failed("set the time of", name, err)
	}
	return &temp{fd: fd}, nil
}

func (t *temp) sync() error {
	return failed("fsync", "a new file", retry(func() error { return unix.Fsync(t.fd) }))
}

func (t *temp) close() error { return unix.Close(t.fd) }

// sync makes the directory's entries durable.
func (h *handle) sync() error {
	return failed("fsync", "a directory", retry(func() error { return unix.Fsync(h.fd) }))
}

func (h *handle) remove(name string) error {
	return failed("remove", name, retry(func() error { return unix.Unlinkat(h.fd, name, 0) }))
}

func (h *handle) rename(from, to string) error {
	return failed("rename", from, retry(func() error { return unix.Renameat(h.fd, from, h.fd, to) }))
}
