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
	envJob     = "SAGESTORE_BACKUP_JOB" // create, restore, beside, remove, prune, resume or memory
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
	now := night
	if job == "prune" {
		now = night.AddDate(0, 0, 10)
	}
	r, err := Open(Dir(os.Getenv(envBackups)), Options{
		Copies: []tiers.Copies{database.Copies(), file.Copies()}, Decode: decodeJSON, Temp: filepath.Join(dir, "tmp"), Clock: tiertest.NewClock(now),
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
	case "memory":
		return measure(ctx, r, dir)
	case "create":
		_, err = createOf(ctx, r, dir)
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
	case "prune":
		_, err = r.Prune(ctx, pruned(), false)
	case "resume":
		err = resume(ctx, dir, r.o.Copies, r.at)
	}
	return err
}

// createOf opens the store of the directory and makes a backup of it.
func createOf(ctx context.Context, r *Repo, dir string) (m Manifest, err error) {
	db, err := database.Open(ctx, database.Config{Path: dbPath(dir)})
	if err != nil {
		return m, err
	}
	tree, err := file.Open(ctx, file.Config{BasePath: treePath(dir)})
	if err != nil {
		return m, err
	}
	var files tiers.Frozen
	frozen, err := db.Freeze(ctx, func(ctx context.Context) (err error) {
		files, err = tree.Freeze(ctx, nil)
		return err
	})
	if err != nil {
		return m, err
	}
	m, _, err = r.Create(ctx, Source{Store: "store-1", Parts: []Part{
		{Name: "database", Path: "sage.db", Frozen: frozen}, {Name: "file", Path: "data", Frozen: files},
	}})
	return m, errors.Join(err, tree.Close(ctx), db.Close(ctx))
}

// pruned is the policy of the child that prunes.
func pruned() Policy { return Policy{Last: 2, Zone: time.UTC} }

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
	if after > 0 && errors.Is(err, context.DeadlineExceeded) {
		return false // its time was over before it began
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
		return 4 * usual
	}
	return usual
}

// again is how often each step is killed: what a process has begun beside it differs.
func again(t *testing.T) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("SAGESTORE_KILLS")); err == nil {
		return max(n, 1)
	}
	return 1
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
	for ended := false; !ended; steps++ {
		for range again(t) {
			here := copyOf(t, dir)
			if ended = child(t, "restore", here, backups, steps, 0); ended {
				steps--
				break
			}
			whole(t, here)
			if t.Failed() {
				t.Fatalf("after a kill at step %d", steps)
			}
		}
	}
	if steps < 7 || !seen["old"] || !seen["new"] {
		t.Errorf("%d steps, seen %v", steps, seen)
	}
	// Who finishes it may be killed as well.
	resumed := func(step int, after time.Duration) (ended bool) {
		here := copyOf(t, dir)
		if child(t, "restore", here, backups, 3, 0) { // the marker is there
			t.Fatal("it ended")
		}
		if _, err := os.Lstat(filepath.Join(here, markerName)); err != nil {
			t.Fatal(err)
		}
		ended = child(t, "resume", here, backups, step, after)
		if !ended {
			whole(t, here)
		}
		return ended
	}
	for step, done := 0, false; step < steps && !done; step++ {
		for range again(t) {
			done = resumed(step, 0)
		}
	}
	if os.Getenv("SAGESTORE_KILLS") != "" {
		for range kills(t, 0) { // wherever it is
			resumed(1000, time.Duration(rand.IntN(40))*time.Millisecond)
		}
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
	killed := func(t *testing.T, step int, after time.Duration) (done bool) {
		t.Helper()
		here := t.TempDir()
		done = child(t, "beside", here, backups, step, after)
		_, err := os.Lstat(filepath.Join(here, "to"))
		there := err == nil
		if done && !there || there && !done && after == 0 { // one that is killed at any time may be killed after its last step
			t.Errorf("at step %d: it is there: %v", step, there)
		}
		if !there {
			if _, err := mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, RestoreOptions{To: filepath.Join(here, "to")}); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(restored, state(t, filepath.Join(here, "to"))); d != "" {
			t.Error(d)
		}
		assertNothingStaged(t, here)
		return done
	}
	for step, done := 0, false; !done; step++ {
		for range again(t) {
			done = killed(t, step, 0)
		}
	}
	if os.Getenv("SAGESTORE_KILLS") == "" {
		return // the steps are all that matters, as a rule
	}
	for range kills(t, 0) { // wherever it is
		killed(t, 1000, time.Duration(10+rand.IntN(150))*time.Millisecond)
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
	steps := 0
	for done := false; !done; steps++ {
		for range again(t) {
			backups := t.TempDir()
			done = child(t, "create", dir, backups, steps, 0)
			n := check(t, backups)
			counts[n]++
			if done && n != 1 {
				t.Errorf("a run that ended made %d", n)
			}
			if done {
				break
			}
		}
	}
	t.Logf("%d steps, each killed %d times", steps-1, again(t))
	backups := t.TempDir()
	if !child(t, "create", dir, backups, 1000, 0) {
		t.Fatal("it was killed")
	}
	for step, done := 0, false; !done; step++ {
		here := copyOf(t, backups)
		done = child(t, "remove", dir, here, step, 0)
		left := 0
		if step == 0 { // before its first object is gone it is one
			left = 1
		}
		if n := check(t, here); n != left {
			t.Errorf("%d are left of one that was being removed, at step %d", n, step)
		}
		if done && step < 4 {
			t.Errorf("the removal has %d steps", step)
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

// TestAKillOfAPruneLeavesWholeBackupsAndThoseThatAreWanted: at each of its steps, and
// at any time.
func TestAKillOfAPruneLeavesWholeBackupsAndThoseThatAreWanted(t *testing.T) {
	t.Parallel()
	dir, backups := t.TempDir(), t.TempDir()
	s := newStore(t, dir)
	o := options(t)
	clock := tiertest.NewClock(night)
	o.Clock = clock
	r := mustRepo(t, Dir(backups), o)
	var made []string
	for range 5 {
		made = append(made, mustCreate(t, r, s).ID)
		clock.Advance(24 * time.Hour)
	}
	s.close(t)
	check := func(t *testing.T, here string, done bool) int {
		t.Helper()
		o := options(t)
		o.Clock = tiertest.NewClock(night.AddDate(0, 0, 20))
		r := mustRepo(t, Dir(here), o)
		left := entries(t, r)
		for i, e := range left { // the newest are there, and the oldest go first
			if e.ID != made[len(made)-1-i] || e.Err != nil || e.Verified.IsZero() {
				t.Errorf("left as number %d is %+v", i, e)
			}
			if i < len(left)-1 {
				continue // it was not its turn
			}
			if _, err := r.Verify(t.Context(), e.ID, false); err != nil {
				t.Error(err)
			}
		}
		if len(left) < 2 || done && len(left) != 2 {
			t.Errorf("%d are left, done %v", len(left), done)
		}
		// The next one comes to its end, and the next run takes what is left of this one.
		if _, err := r.Prune(t.Context(), pruned(), false); err != nil {
			t.Error(err)
		}
		if err := r.sweep(t.Context()); err != nil {
			t.Error(err)
		}
		objects, err := r.objects(t.Context(), "")
		if err != nil || len(objects) != 2 {
			t.Errorf("in the directory are %v, %v", objects, err)
		}
		return len(left)
	}
	counts := map[int]int{}
	steps := 0
	for done := false; !done; steps++ {
		for range again(t) {
			here := copyOf(t, backups)
			done = child(t, "prune", dir, here, steps, 0)
			counts[check(t, here, done)]++
			if t.Failed() {
				t.Fatalf("after a kill at step %d", steps)
			}
			if done {
				break
			}
		}
	}
	t.Logf("%d steps, each killed %d times", steps-1, again(t))
	for n := 2; n <= 5; n++ {
		if counts[n] == 0 {
			t.Errorf("no kill left %d backups: %v", n, counts)
		}
	}
	for range kills(t, 3) {
		here := copyOf(t, backups)
		check(t, here, child(t, "prune", dir, here, 1000, time.Duration(5+rand.IntN(60))*time.Millisecond))
	}
}
