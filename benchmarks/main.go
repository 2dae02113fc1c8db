// Command benchmarks measures sagestore side by side with the raw drivers below
// it, in one run, and prints the ratio beside its budget. Redis lines need
// redis-server on the path, those of PostgreSQL its Debian package; without them they
// are left out and the table says so.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sagestore/sagestore/internal/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if text := os.Getenv(jobVariable); text != "" {
		return runJob(ctx, text)
	}
	rounds := flag.Int("rounds", 7, "rounds of each side, in turns; medians are printed")
	each := flag.Duration("each", 400*time.Millisecond, "how long one side works in a round")
	only := flag.String("run", "", "only lines whose name matches this expression")
	dir := flag.String("dir", "", "where the stores are made (default: a temporary directory)")
	backupMiB := flag.Int64("backup", 0, "measure backups of a store of so many MiB, and nothing else")
	agents := flag.Int("agents", 0, "measure agents with so many messages and checkpoints, such as 100000, and nothing else")
	processes := flag.Bool("processes", false, "measure 1, 2 and 4 processes on one PostgreSQL, and nothing else")
	rtt := flag.Duration("rtt", 0, "how much longer a round trip to Redis and PostgreSQL takes, as over a network")
	cpu := flag.String("cpuprofile", "", "write a profile there")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "sagestore-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(*dir) }()
	}
	if *cpu != "" {
		f, err := os.Create(*cpu)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if *backupMiB > 0 {
		return runBackup(ctx, *dir, *backupMiB<<20)
	}
	if *processes {
		return runProcesses(ctx, *rounds, *each)
	}
	if *agents > 0 {
		return runAgents(ctx, *dir, max(*agents, 1000))
	}
	server, stop, err := startRedis(ctx, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "without Redis:", err)
	}
	defer stop()
	if server != "" && *rtt > 0 {
		addr, end, err := farAway(ctx, strings.TrimPrefix(server, "redis://"), *rtt)
		if err != nil {
			return err
		}
		defer end()
		server = "redis://" + addr
	}

	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "work\tagainst\tours\traw\tmeasured (low to high)\tmust\taim\t")
	for i, c := range comparisons(server, *rtt) {
		if !match.MatchString(c.work) {
			continue
		}
		at, err := os.MkdirTemp(*dir, fmt.Sprintf("%02d-", i))
		if err != nil {
			return err
		}
		r, err := measure(ctx, c, at, *rounds, *each)
		if err != nil {
			return fmt.Errorf("%s: %w", c.work, err)
		}
		_ = os.RemoveAll(at)
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%s\t%s\t%s\t%s\n", c.work, c.against, round(r.ours), round(r.raw),
			c.show(r.ratio)+" ("+c.show(r.low)+" to "+c.show(r.high)+")", c.bound(c.must), c.bound(c.aim), c.verdict(r.ratio))
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return w.Flush()
}

func comparisons(redisURL string, rtt time.Duration) []comparison {
	all := append(memoryComparisons(), managerComparisons()...)
	all = append(all, databaseComparisons()...)
	all = append(all, fileComparisons()...)
	all = append(all, transactionComparisons(redisURL)...)
	all = append(all, agentComparisons()...)
	if redisURL != "" {
		all = append(all, redisComparisons(redisURL)...)
		all = append(all, nearComparisons(redisURL)...)
	}
	if pgtest.Installed() {
		all = append(all, postgresComparisons(rtt)...)
	} else {
		fmt.Fprintln(os.Stderr, "without PostgreSQL: it is not installed")
	}
	return all
}

func (c comparison) show(v float64) string {
	switch c.kind {
	case added:
		return fmt.Sprintf("%+.0f ns", v)
	case millis:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.2fx", v)
}

func (c comparison) bound(v float64) string {
	if v == 0 {
		return ""
	}
	switch c.kind {
	case slower:
		return fmt.Sprintf("≤ %.2fx", v)
	case faster:
		return fmt.Sprintf("≥ %.1fx", v)
	case added:
		return fmt.Sprintf("≤ %.0f ns", v)
	case millis:
		return fmt.Sprintf("≤ %.0f ms", v)
	}
	return ""
}

func (c comparison) verdict(v float64) string {
	within := func(bound float64) bool {
		if c.kind == faster {
			return v >= bound
		}
		return v <= bound
	}
	switch {
	case c.must == 0:
		return "" // it is there to be read, not to be judged
	case within(c.aim):
		return "aim met"
	case within(c.must):
		return "ok"
	}
	return "MISSED"
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Microsecond {
		return d.Round(100 * time.Nanosecond)
	}
	return d
}
