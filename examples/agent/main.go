// Command agent is a small app of an agent on sagestore. It plays transcripts of an
// agent's work, one step after the other. Each step is one transaction: the messages,
// what the agent remembers, learns and uses, how far it has come, and a checkpoint.
// Then it closes, opens again, and shows what is there.
//
//	go run ./examples/agent                          a small transcript of its own, no server needed
//	go run ./examples/agent -crash-at 4              kill the program amid step 4; it says how to go on
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

// options are what the command line says.
type options struct {
	config  string // file, "" for embedded stores
	dir     string // of embedded stores, "" for a new temporary one
	crashAt int    // the step amid which the program is killed, counted from 1; 0: none
	paths   []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	flags.StringVar(&o.config, "config", "", "YAML `file` that says where each kind of data lives")
	flags.StringVar(&o.dir, "dir", "", "`directory` of the stores when there is no such file (default: a new temporary one)")
	flags.IntVar(&o.crashAt, "crash-at", 0, "kill the program amid the `n`-th step of all, counted from 1; a step that an earlier run has committed is not played again (default: no crash)")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: agent [-config FILE | -dir DIRECTORY] [-crash-at N] [TRANSCRIPT...]\n\nTRANSCRIPT is an SWE-agent trajectory or a Claude Code session log; without one a small\ntranscript of its own is played.")
		_, _ = fmt.Fprintln(flags.Output())
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // ends the program on an error
	o.paths = flags.Args()
	if err := run(ctx, os.Stdout, o); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// run is the program; out gets what it prints.
func run(ctx context.Context, out io.Writer, o options) error {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	if o.config != "" && o.dir != "" {
		return errors.New("-config and -dir exclude each other: the file says where the data is")
	}
	cfg, err := settle(&o, say)
	if err != nil {
		return err
	}
	ts, err := readAll(o.paths, say)
	if err != nil {
		return err
	}
	steps := 0
	for _, t := range ts {
		steps += len(t.Steps)
	}
	if o.crashAt < 0 || o.crashAt > steps {
		return fmt.Errorf("-crash-at %d: there are %s; it takes a number from 1 to %d, or 0 for no crash", o.crashAt, counted(steps, "step"), steps)
	}
	drivers := append(embedded.Tiers(), redis.Driver())
	held, err := play(ctx, cfg, drivers, ts, o, say)
	if err != nil {
		return err
	}
	say("\nClosed, and opened again. What is still there:\n")
	return report(ctx, cfg, drivers, held, out)
}

// settle answers the configuration: that of the file, or embedded stores in a
// directory, which stays for a look around.
func settle(o *options, say func(string, ...any)) (*config.Config, error) {
	if o.config != "" {
		return config.Load(o.config)
	}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "sagestore-agent-")
		if err != nil {
			return nil, err
		}
		o.dir = dir
	}
	cfg := config.Default()
	cfg.DataDir = o.dir
	say("Everything is stored below %s: look around there afterwards, and remove it when you like.", o.dir)
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

// play opens the store, goes on where the last run of the program has ended, however
// that was, and answers how many entries each category holds before it closes.
func play(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, ts []transcript, o options, say func(string, ...any)) (held map[string]int, err error) {
	m, err := manager.Open(ctx, cfg, drivers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	a, err := newApp(m)
	if err != nil {
		return nil, err
	}
	if err := a.begin(ctx, say); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.run.Close(context.WithoutCancel(ctx))) }()
	first := 0 // step of a session, among all
	for i, t := range ts {
		played, err := a.session(ctx, t, o.crashAt-first, func() { die(o, say) })
		if err != nil {
			return nil, err
		}
		first += len(t.Steps)
		last := ", and it still goes on when the app closes"
		switch {
		case i < len(ts)-1 && played == 0:
			last = ", and it is over" // an earlier run has ended it, unless it was killed right before
			if err := a.sessions.End(ctx, t.Session); err != nil {
				return nil, err
			}
		case i < len(ts)-1:
			last = ", then it was ended: its context and content are gone, what was learned stays"
			if err := a.sessions.End(ctx, t.Session); err != nil {
				return nil, err
			}
		}
		there := ""
		if n := len(t.Steps) - played; n > 0 {
			there = fmt.Sprintf(" (%d had been before)", n)
		}
		say("session %s: %s played%s%s", t.Session, counted(played, "step"), there, last)
	}
	if err := a.tell(ctx, say); err != nil {
		return nil, err
	}
	return count(ctx, m)
}

// die kills the program, which runs no deferred function and closes no file.
func die(o options, say func(string, ...any)) {
	again := "-dir " + o.dir
	if o.config != "" {
		again = "-config " + o.config
	}
	for _, path := range o.paths {
		again += " " + path
	}
	say("Killed amid step %d, after its messages were written and before it was committed. Go on with:\n\n  go run ./examples/agent %s\n", o.crashAt, again)
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		os.Exit(137)
	}
	select {} // until the kill arrives
}
