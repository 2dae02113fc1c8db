package backup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// envScratch makes the test a child that is killed while a store is unpacked.
const (
	envScratch = "SAGESTORE_BACKUP_SCRATCH" // the directory of the backups
	envTemp    = "SAGESTORE_BACKUP_TEMP"
)

func TestWhatAKilledRehearsalUnpackedIsRemovedByTheNextRun(t *testing.T) {
	if backups := os.Getenv(envScratch); backups != "" {
		o := options(t)
		o.Temp = os.Getenv(envTemp)
		o.Decode = func(context.Context, tiers.Record) error { return killSelf() }
		_, err := mustRepo(t, Dir(backups), o).Verify(t.Context(), Latest, true)
		t.Fatalf("it was not killed: %v", err)
	}
	o := options(t)
	backups := t.TempDir()
	r := mustRepo(t, Dir(backups), o)
	s := newStore(t, t.TempDir())
	m := mustCreate(t, r, s)
	for _, c := range []struct {
		why string
		run func(t *testing.T) error
	}{
		{"creating", func(t *testing.T) error {
			t.Helper()
			_, _, err := r.Create(t.Context(), s.source(t))
			return err
		}},
		{"verifying", func(t *testing.T) error {
			t.Helper()
			_, err := r.Verify(t.Context(), m.ID, false)
			return err
		}},
		{"restoring", func(t *testing.T) error {
			t.Helper()
			_, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: filepath.Join(t.TempDir(), "to")})
			return err
		}},
		{"opening a copy", func(t *testing.T) error {
			t.Helper()
			c, err := r.OpenCopy(t.Context(), m.ID, "database")
			if err != nil {
				return err
			}
			return c.Close()
		}},
		{"sweeping", func(*testing.T) error { return r.Sweep() }},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), envScratch+"="+backups, envTemp+"="+o.Temp, "TMPDIR="+t.TempDir()) // which it leaves
		out, err := cmd.CombinedOutput()
		if ee, ok := errors.AsType[*exec.ExitError](err); !ok || ee.ExitCode() != -1 {
			t.Fatalf("%s: the child was not killed: %v: %s", c.why, err, out)
		}
		left, err := r.LeftBehind()
		if err != nil || len(left) != 1 {
			t.Fatalf("%s: left behind are %v, %v; want the one of the child", c.why, left, err)
		}
		if err := c.run(t); err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		if left, err := os.ReadDir(o.Temp); err != nil || len(left) > 0 {
			t.Errorf("%s: in the temporary place are %v, %v", c.why, left, err)
		}
	}
}

func TestTheTemporaryPlaceOfSomebodyElseStays(t *testing.T) {
	r := mustRepo(t, Dir(t.TempDir()), options(t))
	dir, remove, err := r.temp()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(r.o.Temp, "other")
	unlocked := filepath.Join(r.o.Temp, scratchPrefix+"unlocked") // nobody of ours made it
	for _, d := range []string{other, unlocked} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(unlocked, time.Time{}, night.AddDate(-10, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, other, unlocked} {
		if _, err := os.Stat(d); err != nil {
			t.Errorf("it was swept: %v", err)
		}
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + scratchLock} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its owner did not remove %s: %v", path, err)
		}
	}
}

func TestNoTemporaryPlaceInUseIsSweptWhateverTheClockSays(t *testing.T) {
	o := options(t)
	o.Clock = tiertest.NewClock(night.AddDate(100, 0, 0))
	r := mustRepo(t, Dir(t.TempDir()), o)
	swept := make(chan error)
	stop := make(chan struct{})
	go func() {
		defer close(swept)
		for {
			select {
			case <-stop:
				return
			default:
				if err := r.Sweep(); err != nil {
					swept <- err
					return
				}
			}
		}
	}()
	for range 500 {
		dir, remove, err := r.temp()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "database"), nil, 0o600); err != nil {
			t.Errorf("it was swept: %v", err)
		}
		if err := remove(); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	close(stop)
	if err := <-swept; err != nil {
		t.Error(err)
	}
}
