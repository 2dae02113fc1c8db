package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// A child does one job in a directory, and kills itself at one of its steps.
const (
	envJob     = "SAGESTORE_BACKUP_JOB" // create, restore, beside, remove or resume
	envDir     = "SAGESTORE_BACKUP_DIR"
	envBackups = "SAGESTORE_BACKUP_BACKUPS"
	envStep    = "SAGESTORE_BACKUP_STEP"
	envLog     = "SAGESTORE_BACKUP_LOG" // where the job says that it is done; may be empty
)

func work(job string) int {
	if err := workOn(job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if log := os.Getenv(envLog); log != "" {
		if err := os.WriteFile(log, []byte("done"), 0o600); err != nil {
			return 1
		}
	}
	return 0
}

func workOn(job string) error {
	ctx := context.Background()
	dir := os.Getenv(envDir)
	left, err := strconv.Atoi(os.Getenv(envStep))
	if err != nil {
		return err
	}
	r, err := Open(Dir(os.Getenv(envBackups)), Options{
		Copies: []tiers.Copies{database.Copies(), file.Copies()}, Decode: decodeJSON, Temp: filepath.Join(dir, "tmp"), Clock: tiertest.NewClock(night),
	})
	if err != nil {
		return err
	}
	r.step = func(string) error {
		if left--; left < 0 {
			return killSelf()
		}
		return nil
	}
	switch job {
	case "create":
		db, err := database.Open(ctx, database.Config{Path: dbPath(dir)})
		if err != nil {
			return err
		}
		tree, err := file.Open(ctx, file.Config{BasePath: treePath(dir)})
		if err != nil {
			return err
		}
		var files tiers.Frozen
		frozen, err := db.Freeze(ctx, func(ctx context.Context) (err error) {
			files, err = tree.Freeze(ctx, nil)
			return err
		})
		if err != nil {
			return err
		}
		_, _, err = r.Create(ctx, Source{Store: "store-1", Parts: []Part{
			{Name: "database", Path: "sage.db", Frozen: frozen}, {Name: "file", Path: "data", Frozen: files},
		}})
		return errors.Join(err, tree.Close(ctx), db.Close(ctx))
	case "restore":
		_, err = r.Restore(ctx, Latest, inPlace(dir))
	case "beside":
		_, err = r.Restore(ctx, Latest, RestoreOptions{To: filepath.Join(dir, "to")})
	case "remove":
		e, err := r.Latest(ctx)
		if err != nil {
			return err
		}
		return r.Remove(ctx, e.ID)
	case "resume":
		err = resume(ctx, dir, r.o.Copies, r.at)
	}
	return err
}

func killSelf() error {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	select {} // until it is done
}

// child answers whether the job came to its end before it was killed: at its step, or
// after a while.
func child(t *testing.T, job, dir, backups string, step int, after time.Duration) (done bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if after > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), envJob+"="+job, envDir+"="+dir, envBackups+"="+backups, envStep+"="+strconv.Itoa(step))
	out, err := cmd.CombinedOutput()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() == -1 {
		return false
	}
	if err != nil {
		t.Fatalf("%s at step %d: %v: %s", job, step, err, out)
	}
	return true
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	// Times are versions on the file tier.
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		return errors.Join(err, os.Chtimes(filepath.Join(to, rel), st.ModTime(), st.ModTime()))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func kills(t *testing.T, usual int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("SAGESTORE_KILLS")); err == nil {
		return n
	}
	if os.Getenv("CI") == "true" {
		return 10 * usual
	}
	return usual
}

func TestAKillAtEachStepOfARestoreLeavesTheOldStoreOrTheNewOne(t *testing.T) {
	t.Parallel()
	dir, backups := t.TempDir(), t.TempDir()
	restored, old := changed(t, dir, Dir(backups))
	seen := map[string]bool{}
	whole := func(t *testing.T, dir string) {
		t.Helper()
		_, err := os.Lstat(filepath.Join(dir, markerName))
		decided := err == nil
		if err := Resume(t.Context(), dir, database.Copies()); err != nil {
			t.Fatal(err)
		}
		got := state(t, dir)
		switch {
		case maps.Equal(got, restored):
			seen["new"] = true
		case maps.Equal(got, old) && !decided:
			seen["old"] = true
		default:
			t.Errorf("decided %v, against the old one: %s", decided, cmp.Diff(old, got))
		}
		// The next one comes to its end, and nothing is left of this one.
		if _, err := mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, inPlace(dir)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(restored, state(t, dir)); d != "" {
			t.Error(d)
		}
		assertNothingStaged(t, dir)
	}
	steps := 0
	for ; ; steps++ {
		here := copyOf(t, dir)
		if child(t, "restore", here, backups, steps, 0) {
			break
		}
		whole(t, here)
		if t.Failed() {
			t.Fatalf("after a kill at step %d", steps)
		}
	}
	if steps < 7 || !seen["old"] || !seen["new"] {
		t.Errorf("%d steps, seen %v", steps, seen)
	}
	// Who finishes it may be killed as well.
	for step := range steps {
		here := copyOf(t, dir)
		if child(t, "restore", here, backups, 3, 0) { // the marker is there
			t.Fatal("it ended")
		}
		if _, err := os.Lstat(filepath.Join(here, markerName)); err != nil {
			t.Fatal(err)
		}
		if child(t, "resume", here, backups, step, 0) {
			break
		}
		whole(t, here)
	}
	for range kills(t, 5) {
		here := copyOf(t, dir)
		child(t, "restore", here, backups, 1000, time.Duration(10+rand.IntN(150))*time.Millisecond)
		whole(t, here)
	}
}

func TestAKillOfARestoreBesideLeavesAllOrNothing(t *testing.T) {
	t.Parallel()
	dir, backups := t.TempDir(), t.TempDir()
	restored, _ := changed(t, dir, Dir(backups))
	for step := 0; ; step++ {
		here := t.TempDir()
		done := child(t, "beside", here, backups, step, 0)
		_, err := os.Lstat(filepath.Join(here, "to"))
		if there := err == nil; there != done {
			t.Errorf("at step %d: it is there: %v", step, there)
		}
		if !done {
			if _, err := mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, RestoreOptions{To: filepath.Join(here, "to")}); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(restored, state(t, filepath.Join(here, "to"))); d != "" {
			t.Error(d)
		}
		assertNothingStaged(t, here)
		if done {
			return
		}
	}
}

func TestAKillOfABackupOrOfItsRemovalLeavesNoPartOfOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newStore(t, dir).close(t)
	check := func(t *testing.T, backups string) (n int) {
		t.Helper()
		o := options(t)
		o.Clock = tiertest.NewClock(night.AddDate(0, 0, 2))
		r := mustRepo(t, Dir(backups), o)
		for _, e := range entries(t, r) {
			n++
			if e.Err != nil {
				t.Error(e.Err)
			}
			if _, err := r.Verify(t.Context(), e.ID, true); err != nil {
				t.Error(err)
			}
		}
		// What is left goes with the next run.
		past := night
		err := filepath.WalkDir(backups, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, past, past))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		dirs, err := os.ReadDir(backups)
		if err != nil || len(dirs) != n {
			t.Errorf("%d backups, and in the directory %v, %v", n, dirs, err)
		}
		return n
	}
	counts := map[int]int{}
	for step := 0; ; step++ {
		backups := t.TempDir()
		done := child(t, "create", dir, backups, step, 0)
		n := check(t, backups)
		counts[n]++
		if done {
			if n != 1 {
				t.Errorf("a run that ended made %d", n)
			}
			if child(t, "remove", dir, backups, 0, 0) {
				t.Error("the removal was not killed")
			}
			if n := check(t, backups); n != 0 {
				t.Errorf("%d are left of one that was being removed", n)
			}
			break
		}
	}
	if counts[0] < 3 || counts[1] < 2 {
		t.Errorf("backups after a kill: %v", counts)
	}
	for range kills(t, 5) {
		backups := t.TempDir()
		child(t, "create", dir, backups, 1000, time.Duration(5+rand.IntN(100))*time.Millisecond)
		check(t, backups)
	}
}
