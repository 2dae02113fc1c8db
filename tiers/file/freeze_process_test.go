package file_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
)

const envWrite = "SAGESTORE_FILE_WRITE_IN"

// writeMain turns the process into one that writes, or that holds a snapshot, until it
// is killed.
func writeMain() {
	dir, frozen := os.LookupEnv(envWrite)
	if !frozen {
		return
	}
	dir, frozen = strings.CutPrefix(dir, "frozen:")
	tier, err := file.Open(context.Background(), file.Config{BasePath: dir})
	if err == nil && frozen {
		_, err = tier.Freeze(context.Background(), nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := fmt.Fprintln(os.Stdout, "ready"); err != nil {
		os.Exit(1)
	}
	if frozen {
		select {}
	}
	write(context.Background(), tier, 2, func(err error) { fmt.Fprintln(os.Stderr, err) })
}

// write changes random keys, some of which others change as well, until the context
// ends.
func write(ctx context.Context, tier tiers.Tier, callers int, fail func(error)) {
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				k := key(fmt.Sprintf("dir-%d/key-%d", rand.IntN(4), rand.IntN(20)))
				var err error
				switch rand.IntN(5) {
				case 0:
					_, err = tier.Delete(context.WithoutCancel(ctx), k, tiers.Cond{})
				case 1:
					_, err = tiers.Touch(context.WithoutCancel(ctx), tier, k, time.Hour)
				default:
					r := tiers.Record{Key: k, Codec: []string{"json", "raw"}[rand.IntN(2)], Schema: 1, Value: fmt.Appendf(nil, `"%d"`, rand.Int())}
					_, err = tier.Save(context.WithoutCancel(ctx), r, tiers.Cond{})
				}
				if err != nil {
					fail(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// child runs this binary as a process that writes.
func child(t *testing.T, in string) (kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envWrite+"="+in)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(kill)
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return kill
}

// TestACopyIsOneInstantWhileProcessesWrite kills one of them in between.
func TestACopyIsOneInstantWhileProcessesWrite(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { write(ctx, tier, 4, func(err error) { t.Error(err) }) })
	defer wg.Wait()
	defer cancel()
	kills := []func(){child(t, dir), child(t, dir)}
	var worst time.Duration
	for round := range 6 {
		var want held
		f, err := tier.Freeze(ctx, func(ctx context.Context) (err error) {
			want, err = heldBy(ctx, tier)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) // lets some of it change
		if round >= 2 && round-2 < len(kills) {
			kills[round-2]()
		}
		if d := cmp.Diff(want, heldByCopy(t, f, filepath.Join(t.TempDir(), "copy"))); d != "" {
			t.Errorf("round %d: %s", round, d)
		}
		content, err := f.Content(ctx)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		worst = max(worst, content.Held)
		noSnapshot(t, dir)
	}
	t.Logf("writers waited for at most %v, with the look at all files", worst)
}

func TestTheSnapshotOfADeadProcessIsSwept(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("k", "1"))
	for name, sweep := range map[string]func() error{
		"by a sweep":            func() error { _, err := tier.Sweep(t.Context(), 10); return err },
		"by the next one":       func() error { f, err := tier.Freeze(t.Context(), nil); return errors.Join(err, f.Close()) },
		"by whoever opens next": func() error { return openAt(t, dir, nil).Ping(t.Context()) },
	} {
		kill := child(t, "frozen:"+dir)
		save(t, tier, plain("k", "2"))
		if err := sweep(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".snapshot")); err != nil {
			t.Errorf("%s: that of a live one is gone: %v", name, err)
		}
		kill()
		if err := sweep(); err != nil {
			t.Fatal(err)
		}
		noSnapshot(t, dir)
		save(t, tier, plain("k", "3"))
	}
}
