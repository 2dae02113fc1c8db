//go:build linux

package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/internal/powerloss"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
)

// traced runs a job in a child that strace watches, and answers a recording of what it
// did below base. The job says that it is done in a log.
func traced(t *testing.T, job, dir, backups, base string) powerloss.Recording {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "strace", "-qq", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("strace: %v: %s", err, out)
		}
		t.Skipf("strace can't trace here: %v: %s", err, out)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	away := t.TempDir()
	trace, log, before := filepath.Join(away, "trace"), filepath.Join(away, "log"), filepath.Join(away, "before")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", base, before).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-xx", "-s", "16777216", "-qq", "-o", trace, "-e", "trace="+powerloss.Calls, "-e", "signal=none", exe)
	cmd.Env = append(os.Environ(), envJob+"="+job, envDir+"="+dir, envBackups+"="+backups, envStep+"=1000", envLog+"="+log)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", job, err, out)
	}
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return powerloss.Recording{Trace: f, Before: before, Base: base, Log: log}
}

// cuts makes power cuts and lets check look at the directory behind each.
func cuts(t *testing.T, rec powerloss.Recording, check func(dir string, done bool) error) {
	t.Helper()
	n := kills(t, 30) / 3
	if os.Getenv("CI") != "true" {
		n = 30
	}
	if s, err := strconv.Atoi(os.Getenv("SAGESTORE_IMAGES")); err == nil {
		n = s
	}
	away := t.TempDir()
	made := 0
	err := rec.Cuts(n, 1, func(c powerloss.Cut) error {
		made++
		dir := filepath.Join(away, fmt.Sprint(made))
		if err := c.Write(dir); err != nil {
			return err
		}
		if err := check(dir, len(c.Log) > 0); err != nil {
			t.Errorf("cut after call %d (%s), of what was not synced %s is there: %v", c.After, c.Call, c.Mode, err)
		}
		return errors.Join(t.Context().Err(), os.RemoveAll(dir))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPowerCutInARestoreLeavesTheOldStoreOrTheNewOne(t *testing.T) {
	t.Parallel()
	dir, backups := t.TempDir(), t.TempDir()
	before, after := changed(t, dir, Dir(backups))
	rec := traced(t, "restore", dir, backups, dir)
	states := map[string]int{}
	cuts(t, rec, func(image string, done bool) error {
		decided, err := movedTo(t.Context(), image)
		if err != nil {
			return err
		}
		if err := Resume(t.Context(), image, database.Copies(), file.Copies()); err != nil {
			return err
		}
		got := state(t, image)
		switch isNew := cmp.Equal(got, before); {
		case isNew:
			states["new"]++
		case cmp.Equal(got, after) && !decided && !done:
			states["old"]++
		default:
			return fmt.Errorf("decided %v, done %v: from the old one %s from the new one %s", decided, done, cmp.Diff(after, got), cmp.Diff(before, got))
		}
		return nil
	})
	if states["old"] == 0 || states["new"] == 0 {
		t.Errorf("after the cuts there were %v", states)
	}
}

// movedTo makes the marker of a restore, which names directories, that of a copy of the
// data directory.
func movedTo(ctx context.Context, dir string) (decided bool, err error) {
	m, err := readMarker(dir, markerName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range m.Targets {
		m.Targets[i].Parent = dir
	}
	return m.write(ctx, dir)
}

func TestAPowerCutInABackupLeavesAWholeOneOrNone(t *testing.T) {
	t.Parallel()
	dir, backups := t.TempDir(), t.TempDir()
	newStore(t, dir).close(t)
	rec := traced(t, "create", dir, backups, backups)
	counts := map[int]int{}
	cuts(t, rec, func(image string, done bool) error {
		r := mustRepo(t, Dir(image), options(t))
		verified := 0
		for e, err := range r.List(t.Context()) {
			if err != nil {
				return err
			}
			if e.Err != nil && done {
				return e.Err
			}
			if e.Verified.IsZero() {
				continue // it does not count
			}
			verified++
			if _, err := r.Verify(t.Context(), e.ID, true); err != nil {
				return err
			}
		}
		if done && verified != 1 {
			return fmt.Errorf("it was made, and there are %d", verified)
		}
		counts[verified]++
		return nil
	})
	if counts[0] == 0 || counts[1] == 0 {
		t.Errorf("after the cuts there were so many backups: %v", counts)
	}
}
