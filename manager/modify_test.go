package manager_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestModifyLosesNoUpdate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	counter := manager.For[int](sagetest.Open(t), "session.preferences")
	const callers, each = 16, 1000 / 16
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for range each {
				if _, err := counter.Modify(ctx, "n", func(n *int, _ bool) error { *n++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if got := value[int](t)(counter.Load(ctx, "n")); got != callers*each {
		t.Errorf("counted %d of %d", got, callers*each)
	}
}

func TestModifyAnswersAndErrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[int](sagetest.Open(t), "session.preferences")
	add := func(n *int, found bool) error {
		if *n == 0 == found {
			return fmt.Errorf("found is %v for %d", found, *n)
		}
		*n += 5
		return nil
	}
	if got, err := c.Modify(ctx, "k", add); got != 5 || err != nil {
		t.Errorf("absent: %d, %v", got, err)
	}
	if got, err := c.Modify(ctx, "k", add); got != 10 || err != nil {
		t.Errorf("present: %d, %v", got, err)
	}
	own := errors.New("no")
	if _, err := c.Modify(ctx, "k", func(n *int, _ bool) error { *n = 99; return own }); err != own { //nolint:errorlint // it is the very error
		t.Errorf("the function's error is the answer: %v", err)
	}
	_, err := c.Modify(ctx, "k", add, manager.IfAbsent())
	wantError(t, err, tiers.ErrExists, "if absent")
	_, err = c.Modify(ctx, "k", add, manager.IfVersion(1))
	wantError(t, err, tiers.ErrConflict, "another version")
	ran := 0
	got, err := c.Modify(ctx, "k", func(n *int, _ bool) error {
		if ran++; ran == 1 {
			must(t, c.Save(ctx, "k", 100)) // somebody else
		}
		*n++
		return nil
	})
	if got != 101 || err != nil || ran != 2 {
		t.Errorf("after a conflict: %d, %v, ran %d times", got, err, ran)
	}
}

// Two processes change one counter of one SQLite file.
const (
	contenders = 2
	turns      = 200
)

func TestTwoProcessesModifyOneCounter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closeNow(t, openDir(t, dir)) // made before, so that the processes only contend for the counter
	var both sync.WaitGroup
	for range contenders {
		both.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=count", "SAGESTORE_TEST_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a process failed: %v\n%s", err, out)
			}
		})
	}
	both.Wait()
	m := openDir(t, dir)
	defer closeNow(t, m)
	if got := value[int](t)(manager.For[int](m, "session.preferences").Load(t.Context(), "n")); got != contenders*turns {
		t.Errorf("counted %s of %d", strconv.Itoa(got), contenders*turns)
	}
}
