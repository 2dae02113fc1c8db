package backup

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers/tiertest"
)

// copiers are the commands that people copy a directory of backups with.
func copiers(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, c := range [][]string{{"cp", "-a"}, {"rsync", "-a", "--exclude=.tmp-*"}} {
		if _, err := exec.LookPath(c[0]); err == nil {
			all[c[0]] = c
		}
	}
	if all["cp"] == nil {
		t.Fatal("there is no cp")
	}
	return all
}

// copied lists the backups in a copy, all of which must be whole.
func copied(t *testing.T, why, to string) (ids []string) {
	t.Helper()
	r := mustRepo(t, Dir(to), options(t))
	for _, e := range entries(t, r) {
		if e.Err != nil {
			t.Errorf("%s: %s: %v", why, e.ID, e.Err)
		}
		if _, err := r.Verify(t.Context(), e.ID, false); err != nil {
			t.Errorf("%s: %v", why, err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// TestACopyOfTheDirectoryHoldsWholeBackupsWheneverItIsMade: also while a backup is being
// made, at each of its steps and in the middle of an object.
func TestACopyOfTheDirectoryHoldsWholeBackupsWheneverItIsMade(t *testing.T) {
	t.Parallel()
	for name, command := range copiers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, t.TempDir())
			clock := tiertest.NewClock(night)
			o := options(t)
			o.Clock = clock
			from, kept := t.TempDir(), t.TempDir()
			r := mustRepo(t, Dir(from), o)
			mustCreate(t, r, s)
			clock.Advance(24 * time.Hour)
			seen := map[int]int{}
			duplicate := func(why, to string) {
				t.Helper()
				all := append(append([]string{}, command[1:]...), from+"/.", to)
				if out, err := exec.CommandContext(t.Context(), command[0], all...).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", why, err, out)
				}
				seen[len(copied(t, why, to))]++
			}
			moment := func(why string) {
				duplicate(why, filepath.Join(t.TempDir(), "copied"))
				duplicate(why+", into the copy of before", kept)
			}
			r.step = func(step string) error {
				moment(step)
				return nil
			}
			beginning := s.source(t)
			parts := map[string]bool{}
			beginning.Progress = func(p Progress) {
				if p.Step != "copy" || parts[p.Part] {
					return
				}
				parts[p.Part] = true
				for tries := 0; ; tries++ { // who writes it may be about to begin
					open, err := filepath.Glob(filepath.Join(from, "*", dirTemp+"*"))
					if err == nil && len(open) == 1 {
						break
					}
					if tries == 10_000 {
						t.Errorf("no object is being written: %v, %v", open, err)
						break
					}
					time.Sleep(time.Millisecond)
				}
				moment("the middle of " + p.Part)
			}
			made, _, err := r.Create(t.Context(), beginning)
			if err != nil {
				t.Fatal(err)
			}
			if seen[1] < 10 || seen[0] > 0 || len(parts) != 2 {
				t.Errorf("copies had so many backups: %v", seen)
			}
			duplicate("the end", kept)
			if ids := copied(t, "the next copy", kept); len(ids) != 2 || ids[0] != made.ID {
				t.Errorf("the next copy has %v, and %s was made", ids, made.ID)
			}
			// The newest goes back from there.
			to := filepath.Join(t.TempDir(), "to")
			if _, err := mustRepo(t, Dir(kept), options(t)).Restore(t.Context(), Latest, RestoreOptions{To: to}); err != nil {
				t.Fatal(err)
			}
			if len(state(t, to)) == 0 {
				t.Error("nothing was restored")
			}
			if _, err := os.Stat(filepath.Join(kept, made.ID, manifestObject)); err != nil {
				t.Error(err)
			}
		})
	}
}
