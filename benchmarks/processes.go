package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers/database/postgres"
)

// job is what a process of its own does: so many callers save, all over the keys.
type job struct {
	URL     string
	Raw     bool
	First   int // caller
	Callers int
	Each    time.Duration
}

const jobVariable = "SAGESTORE_BENCHMARK_JOB"

// runProcesses measures 1, 2 and 4 processes with 64 callers in all on one PostgreSQL.
func runProcesses(ctx context.Context, rounds int, each time.Duration) error {
	srv, err := pgtest.Run(pgtest.Config{})
	if err != nil {
		return err
	}
	defer srv.End()
	url := srv.URL("postgres")
	t, err := postgres.Open(ctx, postgres.Config{URL: url})
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, rawTable)
	if err == nil {
		err = fill(ctx, t, filled)
	}
	if err == nil {
		_, err = pool.Exec(ctx, `INSERT INTO raw SELECT key, value FROM sagestore.records`)
	}
	pool.Close()
	if err = errors.Join(err, t.Close(ctx)); err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "processes\tcallers each\tsaves a second\tpgx upserts a second\tratio (low to high)")
	for _, n := range []int{1, 2, 4} {
		var ours, raw, ratios []float64
		for range rounds {
			o, err := together(ctx, n, job{URL: url, Callers: 64 / n, Each: each})
			if err != nil {
				return err
			}
			r, err := together(ctx, n, job{URL: url, Callers: 64 / n, Each: each, Raw: true})
			if err != nil {
				return err
			}
			ours, raw, ratios = append(ours, o), append(raw, r), append(ratios, o/r)
		}
		for _, all := range [][]float64{ours, raw, ratios} {
			slices.Sort(all)
		}
		mid := rounds / 2
		_, _ = fmt.Fprintf(w, "%d\t%d\t%.0f\t%.0f\t%.2fx (%.2fx to %.2fx)\n", n, 64/n, ours[mid], raw[mid], ratios[mid], ratios[0], ratios[rounds-1])
	}
	return w.Flush()
}

// together runs so many processes at once, and answers what they did in a second.
func together(ctx context.Context, n int, j job) (rate float64, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	rates, errs := make([]float64, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		mine := j
		mine.First = i * j.Callers
		text, err := json.Marshal(mine)
		if err != nil {
			return 0, err
		}
		cmd := exec.CommandContext(ctx, program)
		cmd.Env, cmd.Stderr = append(os.Environ(), jobVariable+"="+string(text)), os.Stderr
		wg.Go(func() {
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out, &rates[i])
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for _, r := range rates {
		rate += r
	}
	return rate, errors.Join(errs...)
}

// runJob is the work of one of the processes. It prints what it did in a second.
func runJob(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	save, closing, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer closing()
	var done atomic.Int64
	work := func(until time.Time) error {
		errs := make([]error, j.Callers)
		var wg sync.WaitGroup
		for c := range j.Callers {
			wg.Go(func() {
				for i := int(until.UnixNano() % 1e9); time.Now().Before(until) && errs[c] == nil; i++ {
					errs[c] = save(ctx, j.First+c, i)
					done.Add(1)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	// The others start meanwhile, and end meanwhile.
	if err := work(time.Now().Add(j.Each / 2)); err != nil {
		return err
	}
	done.Store(0)
	began := time.Now()
	if err := work(began.Add(j.Each)); err != nil {
		return err
	}
	rate := float64(done.Load()) / time.Since(began).Seconds()
	if err := work(time.Now().Add(j.Each / 2)); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rate)
}

func (j *job) open(ctx context.Context) (save op, closing func(), err error) {
	if !j.Raw {
		t, err := postgres.Open(ctx, postgres.Config{URL: j.URL})
		if err != nil {
			return nil, nil, err
		}
		return saves(t, filled), closer(t), nil
	}
	cfg, err := pgxpool.ParseConfig(j.URL)
	if err != nil {
		return nil, nil, err
	}
	cfg.MaxConns = int32(j.Callers) //nolint:gosec // at most 64
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, caller, i int) error {
		_, err := pool.Exec(ctx, rawUpsert, name(caller, i, filled), value(caller, i))
		return err
	}, pool.Close, nil
}
