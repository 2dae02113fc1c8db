// Command agent is a small SAGE-style app on sagestore. It plays transcripts of
// agents as sessions and stores at every step what such an app stores: context,
// query history, preferences, loaded content, token usage, access patterns, user
// patterns, optimizations, feedback and settings. Then it closes, opens again
// and shows what survived and what rightly did not.
//
//	go run ./examples/agent                          a small transcript of its own, no server needed
//	go run ./examples/agent run.traj log.jsonl       SWE-agent trajectories, Claude Code session logs
//	go run ./examples/agent -config redis.yaml       the same with the cache in Redis
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
	"github.com/sagestore/sagestore/tiers/embedded"
)

//go:embed sample.jsonl
var sample []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	file := flags.String("config", "", "YAML `file` that says where each kind of data lives (default: embedded stores in a new temporary directory)")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: agent [-config FILE] [TRANSCRIPT...]")
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // ends the program on an error
	if err := run(ctx, os.Stdout, *file, flags.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// run is the program; out gets what it prints.
func run(ctx context.Context, out io.Writer, file string, paths []string) error {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	cfg, err := settle(file, say)
	if err != nil {
		return err
	}
	ts, err := readAll(paths, say)
	if err != nil {
		return err
	}
	drivers := append(embedded.Tiers(), redis.Driver())
	watch := newStopwatch()
	first, err := firstRun(ctx, cfg, drivers, ts, watch, say)
	if err != nil {
		return err
	}
	say("\nClosed, and opened again. What is still there:\n")
	return secondRun(ctx, cfg, drivers, first, watch, out)
}

// settle answers the configuration: that of the file, or embedded stores in a
// temporary directory, which stays for a look around.
func settle(file string, say func(string, ...any)) (*config.Config, error) {
	if file != "" {
		return config.Load(file)
	}
	dir, err := os.MkdirTemp("", "sagestore-agent-")
	if err != nil {
		return nil, err
	}
	cfg := config.Default()
	cfg.DataDir = dir
	say("Everything is stored below %s: look around there afterwards, and remove it when you like.", dir)
	return cfg, nil
}

func readAll(paths []string, say func(string, ...any)) ([]transcript, error) {
	if len(paths) == 0 {
		ts, _, err := readTranscript("sample.jsonl", bytes.NewReader(sample))
		return ts, err
	}
	var all []transcript
	for _, path := range paths {
		f, err := os.Open(path) //nolint:gosec // the user names the transcripts
		if err != nil {
			return nil, err
		}
		ts, problems, err := readTranscript(path, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		for _, p := range problems {
			say("passed over: %s", p)
		}
		all = append(all, ts...)
	}
	return all, nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// firstRun plays the transcripts, ends all sessions but the last, and answers
// how many entries each category held before closing.
func firstRun(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, ts []transcript, watch *stopwatch, say func(string, ...any)) (held map[string]int, err error) {
	m, err := manager.Open(ctx, cfg, drivers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	a, err := newAgent(m, "sample-user", watch)
	if err != nil {
		return nil, err
	}
	for i, t := range ts {
		if err := a.play(ctx, t); err != nil {
			return nil, err
		}
		last := ", then it was ended: its context and content are gone, what was learned stays"
		if i == len(ts)-1 {
			last = ", and it still goes on when the app closes"
		}
		say("session %s: %s stored%s", t.Session, counted(len(t.Steps), "step"), last)
		if i < len(ts)-1 {
			if err := m.EndSession(ctx, t.Session); err != nil {
				return nil, err
			}
		}
	}
	return count(ctx, m)
}
