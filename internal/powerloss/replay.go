package powerloss

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// replay follows the calls of a process.
type replay struct {
	disk disk
	base string // directory that is looked at
	log  string // file whose writes are kept in told

	fds   map[int64]*open
	told  []byte
	ended []int // id of the last change at the end of each call

	// live has files as they are after the run, by their serial: those that were
	// written to through memory.
	live map[int][]byte
}

// open is an open file; duplicates of a descriptor share it.
type open struct {
	node   *node // nil: the log
	at     int64
	append bool
}

// load takes what is in the directory for sure.
func (d *disk) load(base string) (*node, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	dir := d.newDir()
	for _, e := range entries {
		at := filepath.Join(base, e.Name())
		var n *node
		if e.IsDir() {
			if n, err = d.load(at); err != nil {
				return nil, err
			}
		} else {
			n = d.newFile()
			if n.data, err = os.ReadFile(at); err != nil { //nolint:gosec // the caller's own directory
				return nil, err
			}
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			n.mtime, n.size = info.ModTime(), int64(len(n.data))
		}
		dir.names[e.Name()], dir.now[e.Name()] = n, n
	}
	return dir, nil
}

// step follows one call.
func (r *replay) step(c call) error {
	err := r.do(c)
	if err != nil {
		return fmt.Errorf("%s(%.100s) = %d: %w", c.name, strings.Join(c.args, ", "), c.ret, err)
	}
	r.ended = append(r.ended, r.disk.id)
	return nil
}

func (r *replay) do(c call) error { //nolint:gocyclo // a table of calls
	if c.fail && c.name != "fsync" && c.name != "fdatasync" {
		return nil
	}
	switch c.name {
	case "open", "creat":
		return r.open(c, "AT_FDCWD", c.args[0], strings.Join(c.args[1:], "|"))
	case "openat", "openat2":
		return r.open(c, c.args[0], c.args[1], c.args[2])
	case "close":
		fd, err := number(c.args[0])
		delete(r.fds, fd)
		return err
	case "dup", "dup2", "dup3":
		return r.dup(c)
	case "fcntl":
		if strings.HasPrefix(c.args[1], "F_DUPFD") {
			return r.dup(c)
		}
		return nil
	case "lseek":
		if f := r.fd(c.args[0]); f != nil {
			f.at = c.ret
		}
		return nil
	case "write", "pwrite64", "writev", "pwritev", "pwritev2":
		return r.write(c)
	case "ftruncate":
		if f := r.fd(c.args[0]); f != nil && f.node != nil {
			size, err := number(c.args[1])
			r.disk.truncate(f.node, size)
			return err
		}
		return nil
	case "fallocate":
		return r.allocate(c)
	case "fsync", "fdatasync":
		return r.sync(c)
	case "mmap":
		if f := r.fd(c.args[4]); f != nil && f.node != nil && strings.Contains(c.args[3], "MAP_SHARED") && strings.Contains(c.args[2], "PROT_WRITE") {
			f.node.mapped = true
		}
		return nil
	case "mkdir":
		return r.make("AT_FDCWD", c.args[0])
	case "mkdirat":
		return r.make(c.args[0], c.args[1])
	case "unlink", "rmdir":
		return r.remove("AT_FDCWD", c.args[0])
	case "unlinkat":
		return r.remove(c.args[0], c.args[1])
	case "rename":
		return r.rename("AT_FDCWD", c.args[0], "AT_FDCWD", c.args[1], "")
	case "renameat":
		return r.rename(c.args[0], c.args[1], c.args[2], c.args[3], "")
	case "renameat2":
		return r.rename(c.args[0], c.args[1], c.args[2], c.args[3], c.args[4])
	case "link":
		return r.link("AT_FDCWD", c.args[0], "AT_FDCWD", c.args[1])
	case "linkat":
		return r.link(c.args[0], c.args[1], c.args[2], c.args[3])
	case "utimensat":
		return r.touch(c)
	case "truncate", "copy_file_range", "sendfile", "splice", "sync_file_range", "syncfs", "sync", "msync", "symlink", "symlinkat":
		return r.refuse(c)
	}
	return nil
}

// refuse is for calls that the process is not known to make below the directory.
func (r *replay) refuse(c call) error {
	for _, a := range c.args {
		if f := r.fd(a); f != nil {
			return fmt.Errorf("nobody knows what this does to the disk")
		}
	}
	return nil
}

func (r *replay) fd(arg string) *open {
	n, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return nil
	}
	return r.fds[n]
}

func (r *replay) dup(c call) error {
	delete(r.fds, c.ret)
	if f := r.fd(c.args[0]); f != nil {
		r.fds[c.ret] = f
	}
	return nil
}

// find answers the directory and the last name of a path; ok is false for what
// lies elsewhere.
func (r *replay) find(dirfd, arg string) (dir *node, name string, ok bool, err error) {
	b, err := text(arg)
	if err != nil {
		return nil, "", false, err
	}
	p := string(b)
	at := r.disk.root
	if path.IsAbs(p) {
		rel, err := filepath.Rel(r.base, p)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			return nil, "", false, nil //nolint:nilerr // it lies elsewhere
		}
		p = rel
	} else {
		f := r.fd(dirfd)
		if f == nil || f.node == nil {
			return nil, "", false, nil
		}
		at = f.node
	}
	parts := strings.Split(path.Clean(p), "/")
	for _, part := range parts[:len(parts)-1] {
		if part == ".." {
			return nil, "", false, fmt.Errorf("the path %s goes up", p)
		}
		if at = at.now[part]; at == nil || !at.dir {
			return nil, "", false, fmt.Errorf("the directory %s of %s is not known", part, p)
		}
	}
	return at, parts[len(parts)-1], true, nil
}

func (r *replay) open(c call, dirfd, arg, flags string) error {
	delete(r.fds, c.ret)
	b, err := text(arg)
	if err != nil {
		return err
	}
	if string(b) == r.log {
		r.fds[c.ret] = &open{}
		return nil
	}
	dir, name, ok, err := r.find(dirfd, arg)
	if err != nil || !ok {
		return err
	}
	if strings.Contains(flags, "O_SYNC") || strings.Contains(flags, "O_DSYNC") {
		return fmt.Errorf("writes that sync are not known")
	}
	n := dir.now[name]
	if name == "." || name == "" {
		n = dir
	}
	switch {
	case strings.Contains(flags, "O_TMPFILE"):
		n = r.disk.newFile()
	case n == nil && (strings.Contains(flags, "O_CREAT") || c.name == "creat"):
		n = r.disk.newFile()
		r.disk.name(dir, map[string]*node{name: n})
	case n == nil && !strings.Contains(flags, "O_WRONLY") && !strings.Contains(flags, "O_RDWR"):
		return nil // it was opened for reading and removed at the same time
	case n == nil:
		return fmt.Errorf("the file %s is not known", name)
	case strings.Contains(flags, "O_TRUNC") && n.size > 0:
		r.disk.truncate(n, 0)
	}
	r.fds[c.ret] = &open{node: n, append: strings.Contains(flags, "O_APPEND")}
	return nil
}

func (r *replay) write(c call) error {
	f := r.fd(c.args[0])
	if f == nil {
		return nil
	}
	var data []byte
	var err error
	if strings.Contains(c.name, "writev") {
		data, err = vectors(c.args[1])
	} else {
		data, err = text(c.args[1])
	}
	if err != nil {
		return err
	}
	data = data[:c.ret]
	if f.node == nil {
		r.told = append(r.told, data...)
		return nil
	}
	at := f.at
	if strings.HasPrefix(c.name, "pwrite") {
		if at, err = number(c.args[3]); err != nil {
			return err
		}
	} else {
		if f.append {
			at = f.node.size
		}
		f.at = at + c.ret
	}
	r.disk.write(f.node, at, data)
	return nil
}

func (r *replay) allocate(c call) error {
	f := r.fd(c.args[0])
	if f == nil || f.node == nil {
		return nil
	}
	if c.args[1] != "0" {
		if strings.Contains(c.args[1], "KEEP_SIZE") {
			return nil
		}
		return fmt.Errorf("this mode is not known")
	}
	at, err := number(c.args[2])
	if err != nil {
		return err
	}
	n, err := number(c.args[3])
	if err == nil && at+n > f.node.size {
		r.disk.truncate(f.node, at+n)
	}
	return err
}

// sync makes sure what had been done when the call began.
func (r *replay) sync(c call) error {
	f := r.fd(c.args[0])
	if f == nil || f.node == nil || c.fail {
		return nil
	}
	upTo := 0
	if c.begun > 0 {
		upTo = r.ended[c.begun-1]
	}
	f.node.sync(upTo, c.name == "fsync")
	if data := r.live[f.node.serial]; f.node.mapped && data != nil {
		f.node.data, f.node.size = data, int64(len(data))
	}
	return nil
}

func (r *replay) make(dirfd, arg string) error {
	dir, name, ok, err := r.find(dirfd, arg)
	if err == nil && ok {
		r.disk.name(dir, map[string]*node{name: r.disk.newDir()})
	}
	return err
}

func (r *replay) remove(dirfd, arg string) error {
	dir, name, ok, err := r.find(dirfd, arg)
	if err == nil && ok {
		r.disk.name(dir, map[string]*node{name: nil})
	}
	return err
}

func (r *replay) rename(fromfd, from, tofd, to, flags string) error {
	a, was, ok, err := r.find(fromfd, from)
	if err != nil || !ok {
		return err
	}
	b, now, ok, err := r.find(tofd, to)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("it leaves the directory")
	}
	n := a.now[was]
	if n == nil {
		return fmt.Errorf("%s is not known", was)
	}
	var left *node
	if strings.Contains(flags, "RENAME_EXCHANGE") {
		if left = b.now[now]; left == nil {
			return fmt.Errorf("%s is not known", now)
		}
	}
	if a == b {
		r.disk.name(a, map[string]*node{was: left, now: n})
		return nil
	}
	r.disk.name(b, map[string]*node{now: n})
	r.disk.name(a, map[string]*node{was: left})
	return nil
}

func (r *replay) link(fromfd, from, tofd, to string) error {
	b, now, ok, err := r.find(tofd, to)
	if err != nil || !ok {
		return err
	}
	p, err := text(from)
	if err != nil {
		return err
	}
	var n *node
	if fd, of := strings.CutPrefix(string(p), "/proc/self/fd/"); of {
		if f := r.fd(fd); f != nil {
			n = f.node
		}
	} else if len(p) == 0 {
		if f := r.fd(fromfd); f != nil {
			n = f.node
		}
	} else if a, was, ok, err := r.find(fromfd, from); err == nil && ok {
		n = a.now[was]
	}
	if n == nil {
		return fmt.Errorf("what is linked is not known")
	}
	r.disk.name(b, map[string]*node{now: n})
	return nil
}

func (r *replay) touch(c call) error {
	all := instant.FindAllStringSubmatch(c.args[2], -1)
	var n *node
	if c.args[1] == "NULL" {
		if f := r.fd(c.args[0]); f != nil {
			n = f.node
		}
	} else {
		dir, name, ok, err := r.find(c.args[0], c.args[1])
		if err != nil || !ok {
			return err
		}
		n = dir.now[name]
	}
	if n == nil || n.dir {
		return nil
	}
	if len(all) == 0 || strings.Contains(c.args[2], "UTIME_") {
		return fmt.Errorf("these times are not known")
	}
	last := all[len(all)-1]
	sec, err := strconv.ParseInt(last[1], 10, 64)
	if err != nil {
		return err
	}
	nsec, err := strconv.ParseInt(last[2], 10, 64)
	if err != nil {
		return err
	}
	r.disk.touch(n, time.Unix(sec, nsec))
	return nil
}

// mapped answers files that were written to through memory, as they are at the
// end of the run.
func (r *replay) mapped() map[int][]byte {
	out := map[int][]byte{}
	var walk func(at string, n *node)
	walk = func(at string, n *node) {
		for name, child := range n.now {
			switch p := filepath.Join(at, name); {
			case child.dir:
				walk(p, child)
			case child.mapped:
				if b, err := os.ReadFile(p); err == nil { //nolint:gosec // the caller's own directory
					out[child.serial] = b
				}
			}
		}
	}
	walk(r.base, r.disk.root)
	return out
}
