package file_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
)

// needed skips the test where the machine can't do something, and fails it in
// CI, where nothing may be skipped.
func needed(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func TestAReadOnlyFileSystemCanBeReadAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	needed(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	tier := open(t, dir)
	saved := save(t, tier, plain("k", `1`))
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		// The locks of the open handle are files that are open for writing.
		if err := tier.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		needed(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	tier = open(t, dir)
	if got := load(t, tier, "k"); got.Version != saved.Version {
		t.Errorf("loaded %+v", got)
	}
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
		if err != nil || r.Name != "k" {
			t.Errorf("listed %v %v", r, err)
		}
	}
	_, saveErr := tier.Save(t.Context(), plain("k", `2`), tiers.Cond{})
	_, newErr := tier.Save(t.Context(), plain("new/k", `2`), tiers.Cond{})
	_, deleteErr := tier.Delete(t.Context(), key("k"), tiers.Cond{})
	_, touchErr := tier.Touch(t.Context(), key("k"), 1e9)
	for op, err := range map[string]error{"save": saveErr, "save of a new key": newErr, "delete": deleteErr, "touch": touchErr} {
		if !errors.Is(err, tiers.ErrReadOnly) || !strings.Contains(err.Error(), "mounted read-only") {
			t.Errorf("%s: %v, want read-only with a hint", op, err)
		}
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

const envDenied = "SAGESTORE_FILE_DENIED_IN"

// deniedMain tries to use a directory of another user, when it is told so, and
// exits with 0 when it is told clearly that it may not.
func deniedMain() {
	dir := os.Getenv(envDenied)
	if dir == "" {
		return
	}
	tier, err := file.Open(context.Background(), file.Config{BasePath: dir})
	if err == nil {
		_, err = tier.Save(context.Background(), plain("k", `1`), tiers.Cond{})
	}
	if errors.Is(err, fs.ErrPermission) && strings.Contains(err.Error(), "owner and mode") {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "want a permission error with a hint, got:", err)
	os.Exit(1)
}

func TestAnotherUsersDirectoryIsAPermissionErrorWithAHint(t *testing.T) {
	if os.Getuid() != 0 {
		needed(t, errors.New("only root can become another user"))
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why  string
		mode os.FileMode
	}{{"it can't be entered", 0o700}, {"it can't be written", 0o755}} {
		t.Run(c.why, func(t *testing.T) {
			// A place that the other user can reach.
			top, err := os.MkdirTemp("/tmp", "sagestore-denied-") //nolint:usetesting // the directory of a test is closed to other users
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(top) }()
			dir := filepath.Join(top, "tree")
			program := filepath.Join(top, "program")
			if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(dir, 0o700), os.Chmod(dir, c.mode), copyFile(exe, program)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = append(os.Environ(), envDenied+"="+dir)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
