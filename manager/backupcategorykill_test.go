package manager_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// restoring is a child that restores a category again and again, until it kills itself:
// at a step of its progress, or a while after everything was prepared.
func restoring(ctx context.Context, m *manager.Manager) error {
	at, after, _ := strings.Cut(os.Getenv("SAGESTORE_TEST_AT"), "+")
	left, err := strconv.Atoi(at)
	if err != nil {
		return err
	}
	wait, err := time.ParseDuration(after)
	if err != nil {
		return err
	}
	o := manager.RestoreOptions{Progress: func(p backup.Progress) {
		switch left--; {
		case left == 0:
			die()
		case p.Step == "switch" && left < 0:
			go func() {
				_ = tiers.SystemClock().Sleep(ctx, wait) // its end is all that matters
				die()
			}()
		}
	}}
	b, err := m.Backups(ctx)
	for err == nil {
		_, err = b.RestoreCategories(ctx, m, backup.Latest, strings.Split(os.Getenv("SAGESTORE_TEST_CATEGORY"), ","), o)
	}
	return err
}

// categoryKill is where a restore of categories kills itself: at a number of its
// progress, or, with 0, that long after all was prepared.
type categoryKill struct {
	at    int
	after time.Duration
}

// categoryKills are the steps: of n records each is told, and then the switch.
func categoryKills(n int) []categoryKill {
	all := []categoryKill{{at: 1}, {at: n / 2}, {at: n}, {at: n + 1}}
	times := 3
	if os.Getenv("CI") == "true" {
		times = 5
	}
	if n, err := strconv.Atoi(os.Getenv("SAGESTORE_KILLS")); err == nil {
		times = n
	}
	for i := range times {
		all = append(all, categoryKill{after: time.Duration(i) * 200 * time.Millisecond / time.Duration(times)})
	}
	return all
}

func TestAKilledRestoreOfCategoriesLeavesAllOldOrAllNew(t *testing.T) {
	t.Parallel()
	for _, categories := range [][]string{{"agent.state"}, {"agent.state", "config"}} {
		t.Run(strings.Join(categories, ","), func(t *testing.T) {
			t.Parallel()
			killedRestores(t, categories)
		})
	}
}

func killedRestores(t *testing.T, categories []string) {
	t.Helper()
	dir := t.TempDir()
	m := openDir(t, dir)
	defer closeNow(t, m)
	const n = 60
	save := func(text string) {
		must(t, m.Update(t.Context(), func(tx *manager.Tx) error {
			for i := range n {
				for _, c := range categories {
					if err := tx.Save(t.Context(), c, fmt.Sprint(i), text+strings.Repeat("x", 8<<10)); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	save("old")
	_, err := m.ApplyPending(t.Context(), "", true)
	must(t, err)
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	came := map[string]int{}
	for kills := categoryKills(n * len(categories)); len(kills) > 0; kills = kills[1:] {
		k := kills[0]
		save("new")
		must(t, m.Save(t.Context(), categories[0], "later", "new"))
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=restore", "SAGESTORE_TEST_DIR="+dir,
			"SAGESTORE_TEST_CATEGORY="+strings.Join(categories, ","), fmt.Sprintf("SAGESTORE_TEST_AT=%d+%v", k.at, k.after))
		out, err := cmd.CombinedOutput()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("%+v: %v\n%s", k, err, out)
		}
		counts := map[string]int{}
		count := func() {
			clear(counts)
			for _, c := range categories {
				for item, err := range m.List(t.Context(), c) {
					must(t, err)
					counts[value[string](t)(manager.For[string](m, c).Load(t.Context(), item.Key))[:3]]++
				}
			}
		}
		count()
		if len(counts) != 1 || counts["old"] != n*len(categories) && counts["new"] != n*len(categories)+1 {
			t.Fatalf("%+v left %v", k, counts)
		}
		if k.at != 0 && counts["old"] != 0 {
			t.Fatalf("%+v: it was switched before all was prepared", k)
		}
		if counts["old"] != 0 {
			came["old"]++
		}
		if len(kills) == 1 && came["old"] == 0 && k.after < time.Minute { // the machine is slow
			kills = append(kills, categoryKill{after: 2*k.after + 100*time.Millisecond})
		}
		// What waits for the files does not change that.
		was := fmt.Sprint(counts)
		left, err := m.ApplyPending(t.Context(), "", true)
		must(t, err)
		if count(); len(left) != 0 || fmt.Sprint(counts) != was {
			t.Fatalf("%+v left %s, and applied that is %v, with %v to go", k, was, counts, left)
		}
	}
	if came["old"] == 0 {
		t.Error("it was never killed after the switch")
	}
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, backup.Latest, categories, manager.RestoreOptions{}))
	want := map[string]int64{}
	for _, c := range categories {
		want[c] = n
	}
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	if diff := cmp.Diff(want, made.Records()); diff != "" {
		t.Errorf("what was killed has left something (-want +got):\n%s", diff)
	}
}
