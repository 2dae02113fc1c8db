package database

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sagestore/sagestore/tiers"
)

// Root may write to any directory, but not to a file system that is mounted
// read-only.
func TestAReadOnlyFileSystemSaysSoAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	need := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	need(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"))
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(dir, "sage.db")
	mustOpenAndClose(t, path)
	before := sumOf(path)
	need(unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for why, path := range map[string]string{
		"a database that is there": path, "a new one": filepath.Join(dir, "new.db"), "one in a new directory": filepath.Join(dir, "a", "b.db"),
	} {
		_, err := Open(t.Context(), Config{Path: path})
		var e *tiers.Error
		if !errors.Is(err, tiers.ErrReadOnly) || !errors.As(err, &e) || !strings.Contains(e.Hint, path) || !strings.Contains(e.Hint, "mount") {
			t.Errorf("%s: %v", why, err)
		}
	}
	if sumOf(path) != before {
		t.Error("the file was changed")
	}
}

func TestErrorsOfTheSystemSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		cause syscall.Errno
		want  error
		hint  string
	}{
		{syscall.EROFS, tiers.ErrReadOnly, "mounted read-only"},
		{syscall.ENOSPC, tiers.ErrFull, "make room"},
		{syscall.EACCES, fs.ErrPermission, "who owns"},
		{syscall.EPERM, fs.ErrPermission, "who owns"},
	} {
		err := ofSystem(fmt.Errorf("make it: %w", &fs.PathError{Op: "open", Path: "/d/sage.db.lock", Err: c.cause}), "/d/sage.db")
		var e *tiers.Error
		if !errors.Is(err, c.want) || !errors.Is(err, c.cause) || !errors.As(err, &e) || !strings.Contains(e.Hint, c.hint) || !strings.Contains(e.Hint, "/d/sage.db") {
			t.Errorf("%v: %v", c.cause, err)
		}
	}
}
