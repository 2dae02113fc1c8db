package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// envCount makes the test binary a child that counts in the database of this
// directory.
const envCount = "SAGESTORE_DATABASE_COUNT_DIR"

// increase loads a number, adds one and saves it if nobody else was faster.
func increase(ctx context.Context, t tiers.Tier, k tiers.Key) error {
	for {
		r, err := t.Load(ctx, k)
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return err
		}
		n, _ := strconv.Atoi(string(r.Value))
		next := tiers.Record{Key: k, Codec: "json", Schema: 1, Value: []byte(strconv.Itoa(n + 1))}
		_, err = t.Save(ctx, next, tiers.If(r.Version))
		if errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrExists) {
			continue
		}
		return err
	}
}

func countAsChild(dir string) int {
	ctx := context.Background()
	t, err := crashing.Open(ctx, dir)
	for i := 0; err == nil && i < 200; i++ {
		err = increase(ctx, t, key("counter"))
	}
	if err == nil {
		err = t.Close(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestTwoProcessesLoseNoUpdateAndSeeNoLock(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), envCount+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	tier, err := crashing.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tier.Close(context.Background()) }()
	if r, err := tier.Load(t.Context(), key("counter")); err != nil || string(r.Value) != "400" {
		t.Fatalf("counted to %s, %v; want 400", r.Value, err)
	}
}

func TestSixteenCallersLoseNoUpdate(t *testing.T) {
	t.Parallel()
	tier := mustOpen(t, Config{Path: t.TempDir() + "/sage.db"})
	const callers = 16
	each := 15 // the more of them, the more tries each takes
	if os.Getenv("CI") == "true" {
		each = 63
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if err := increase(context.Background(), tier, key("counter")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if r, err := tier.Load(t.Context(), key("counter")); err != nil || string(r.Value) != strconv.Itoa(callers*each) {
		t.Fatalf("counted to %s, %v; want %d", r.Value, err, callers*each)
	}
}
