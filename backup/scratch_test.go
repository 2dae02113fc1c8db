package backup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/tiers"
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
		cmd.Env = append(os.Environ(), envScratch+"="+backups, envTemp+"="+o.Temp)
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
	young := filepath.Join(r.o.Temp, scratchPrefix+"young") // whose owner has yet to lock it
	for _, d := range []string{other, young} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(young, night, night); err != nil {
		t.Fatal(err)
	}
	if err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, other, young} {
		if _, err := os.Stat(d); err != nil {
			t.Errorf("it was swept: %v", err)
		}
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its owner did not remove it: %v", err)
	}
}
