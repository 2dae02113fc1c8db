package file_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
)

const envCount = "SAGESTORE_FILE_COUNT_IN"

const (
	countCallers = 4
	countEach    = 25
)

// conditionsMain turns the process into one that counts, when it is told so.
func conditionsMain() {
	dir := os.Getenv(envCount)
	if dir == "" {
		return
	}
	if err := count(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// count raises one number with conditional saves, from several callers.
func count(dir string) error {
	ctx := context.Background()
	tier, err := file.Open(ctx, file.Config{BasePath: dir})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, countCallers)
	for i := range errs {
		wg.Go(func() {
			for range countEach {
				if errs[i] = raise(ctx, tier); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), tier.Close(ctx))
}

func raise(ctx context.Context, tier tiers.Tier) error {
	for {
		r, err := tier.Load(ctx, key("counter"))
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return err
		}
		n, _ := strconv.Atoi(string(r.Value))
		_, err = tier.Save(ctx, plain("counter", strconv.Itoa(n+1)), tiers.If(r.Version))
		if !errors.Is(err, tiers.ErrConflict) && !errors.Is(err, tiers.ErrExists) {
			return err
		}
	}
}

func TestConditionsHoldBetweenProcesses(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const processes = 2
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), envCount+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	var n int
	if err := json.Unmarshal(load(t, open(t, dir), "counter").Value, &n); err != nil || n != processes*countCallers*countEach {
		t.Errorf("counted to %d, %v; want %d", n, err, processes*countCallers*countEach)
	}
}
