//go:build linux

// Command torture kills the processes of a store, again and again, and looks for
// promises that were broken.
//
//	go run ./internal/torture                 10,000 kills
//	go run ./internal/torture -kills 500 -seed 7 -faults kill,redis-kill
//	go run ./internal/torture -agents         agents instead
//	go run ./internal/torture -postgres -rounds 1000
//
// In each round several generations of two workers use one store: transactions
// over all four tiers that move money between accounts, mark what they touched,
// and count in a durable tier and in memory at once; single saves and deletes;
// audits that add everything up. They are killed at random instants and at named
// points of a commit, Redis is killed and frozen under them, writes and syncs
// fail. Then another process opens the store, as the next user would, and package
// check compares what is stored with the logs of the workers.
//
// With -postgres the database is PostgreSQL and the cache Redis, four workers use the
// store at a time, the servers are restarted under them, and connections are cut in the
// middle of what is said.
//
// With -agents the workers do what programs do with package agent, in all routings.
//
// Interrupted, it goes on where it was when it is given the same directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

// run is the parent, or one of the processes that it starts.
func run(ctx context.Context, args []string) error {
	if len(args) == 2 {
		does := map[string]func(context.Context, spec) error{"work": work, "recover": recoverStore, "found": found}
		if do := does[args[0]]; do != nil {
			s, err := readSpec(args[1])
			if err != nil {
				return err
			}
			return do(ctx, s)
		}
	}
	var t torture
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.IntVar(&t.kills, "kills", 10_000, "how many `processes` to kill")
	flags.Uint64Var(&t.seed, "seed", 0, "`number` that decides what happens; 0: by the time")
	flags.StringVar(&t.dir, "dir", "", "`directory` for stores and logs; a new one goes when nothing was found")
	flags.IntVar(&t.rounds, "rounds", 0, "how many `rounds` at most; 0: as many as it takes")
	faults := flags.String("faults", "", "`kinds` of rounds; default: all")
	flags.StringVar(&t.cache, "cache", "", "`driver` of the cache: redis or file; default: redis for three stores of four")
	flags.IntVar(&t.lanes, "lanes", 2, "how many `stores` at a time")
	flags.IntVar(&t.callers, "callers", 4, "`goroutines` of each worker")
	flags.BoolVar(&t.postgres, "postgres", false, "the database is PostgreSQL, the cache Redis")
	flags.BoolVar(&t.agents, "agents", false, "agents: their conversations, checkpoints and forks")
	flags.BoolVar(&t.plain, "plain", false, "single saves and deletes only")
	flags.BoolVar(&t.quiet, "quiet", false, "no progress")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if t.postgres && (t.agents || t.plain || t.cache == "file") {
		return errors.New("on PostgreSQL there are transactions alone, and the cache is in Redis")
	}
	if t.faults = t.known(); *faults != "" {
		t.faults = strings.Split(*faults, ",")
	}
	t.out = os.Stdout
	return t.run(ctx)
}
