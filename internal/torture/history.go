//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sagestore/sagestore/internal/torture/check"
)

const workers = 2 // at a time, on SQLite

// workers is how many there are at a time, and generations how many of those in a round.
func (t *torture) workers() int {
	if t.postgres {
		return 2 * workers
	}
	return workers
}

func (t *torture) generations() int {
	if t.postgres {
		return 1
	}
	return 4
}

// history is what happens to one store.
type history struct {
	*torture
	dir    string
	store  store
	before check.State
	now    check.Found
	told   map[string]string // what there was of agents at the last look
	n      int               // of the round
}

// child is a process of this program.
func (h *history) child(ctx context.Context, does string, s spec, wrapper ...string) *exec.Cmd {
	exe := h.exe
	if exe == "" {
		exe, _ = os.Executable() // which is known on Linux
	}
	arg, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	argv := append(wrapper, exe, does, string(arg))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // this program itself
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "GOTRACEBACK=all")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = &bytes.Buffer{}
	return cmd
}

// said is what a process wrote before it ended.
func said(cmd *exec.Cmd) string {
	b, ok := cmd.Stderr.(*bytes.Buffer)
	if !ok {
		return ""
	}
	return strings.TrimSpace(b.String())
}

// round lets workers die, recovers, and checks.
func (h *history) round(ctx context.Context) ([]check.Fault, error) {
	kinds := h.kinds()
	for _, kind := range kinds {
		h.done.Faults[kind]++
	}
	h.n++
	var logs []string
	for gen := range h.generations() {
		begun, err := h.generation(ctx, gen, kinds)
		logs = append(logs, begun...)
		if err != nil {
			return nil, err
		}
	}
	lines, asks, err := h.read(logs)
	if err != nil {
		return nil, err
	}
	outcomes, err := h.recover(ctx, asks)
	if err != nil {
		return nil, err
	}
	faults, err := h.look(ctx)
	if err != nil {
		return nil, err
	}
	r := check.Round{Logs: lines, Before: h.before, After: h.now.State, Commits: h.now.Commits, Outcomes: outcomes}
	if !h.plain {
		r.Money = 3 * accounts * balance
	}
	faults = append(faults, r.Check()...)
	if len(faults) == 0 {
		h.before = h.now.State
		for _, log := range logs {
			if err := os.Remove(log); err != nil {
				return nil, err
			}
		}
	}
	return faults, nil
}

// generation runs workers side by side until all of them are dead.
func (h *history) generation(ctx context.Context, gen int, kinds []string) (logs []string, err error) {
	var running []*victim
	defer func() {
		for _, v := range running {
			v.kill() // most are dead by now
			<-v.dead
		}
	}()
	h.network.mend()
	for slot := range h.workers() {
		s := spec{
			Store: h.network.between(h.store), Slot: slot, Gen: gen, Callers: h.callers, Seed: h.rng.Uint64(), Plain: h.plain,
			Name: fmt.Sprintf("r%d.%d", h.done.Rounds, gen*h.workers()+slot), Lazy: h.rng.IntN(3) == 0,
			Log: filepath.Join(h.dir, fmt.Sprintf("round%d-gen%d-slot%d.log", h.n, gen, slot)),
		}
		if slot < h.workers()/2 && h.rng.IntN(3) > 0 {
			points := pointNames()
			s.Point, s.Nth = points[h.rng.IntN(len(points))], 1+h.rng.IntN(24/h.workers())
		}
		cmd, err := h.start(ctx, &s, kinds)
		if err != nil {
			return logs, err
		}
		running, logs = append(running, newVictim(cmd, s)), append(logs, s.Log)
	}
	for _, v := range running {
		if err := h.ready(ctx, v); err != nil {
			return logs, err
		}
	}
	for _, kind := range kinds {
		if err := h.disturb(ctx, kind); err != nil {
			return logs, err
		}
	}
	return logs, cmp.Or(h.end(running), ctx.Err())
}

// victim is a worker that is going to be killed.
type victim struct {
	spec
	cmd  *exec.Cmd
	pid  int           // of the worker itself, which may have strace above it
	dead chan struct{} // closed when it has ended
}

func newVictim(cmd *exec.Cmd, s spec) *victim {
	v := &victim{spec: s, cmd: cmd, pid: cmd.Process.Pid, dead: make(chan struct{})}
	go func() {
		defer close(v.dead)
		_ = cmd.Wait() // it is to be killed
	}()
	return v
}

func (v *victim) kill() {
	select {
	case <-v.dead:
	default:
		_ = syscall.Kill(v.pid, syscall.SIGKILL) // it may have died just now
	}
}

// end kills the workers, some perhaps at a point.
func (h *history) end(running []*victim) error {
	life := time.Duration(5+h.rng.IntN(60)) * time.Millisecond
	longest := 250 * time.Millisecond // within which it should reach its point by itself
	switch {
	case h.agents:
		life *= time.Duration(1 + h.rng.IntN(6)) // their work takes longer
	case h.postgres:
		life, longest = 100*time.Millisecond+10*life, 750*time.Millisecond // each commit waits for the server, and for the turn of others
	}
	if running[0].Point != "" {
		life = longest
	}
	select {
	case <-running[0].dead:
	case <-time.After(life):
	}
	for i, v := range running {
		select {
		case <-v.dead:
			if v.Point == "" && v.Limit == 0 { // which keeps its log from growing
				return fmt.Errorf("worker %s ended by itself: %s", v.Name, said(v.cmd))
			}
			h.done.Points[v.Point]++
		default:
		}
		if i > 0 {
			h.pause(25)
		}
		v.kill()
		<-v.dead
		h.done.Kills++
	}
	return nil
}

// ready waits until a worker has opened the store.
func (h *history) ready(ctx context.Context, v *victim) error {
	ready := regexp.MustCompile(`{"k":"ready","op":"(\d+)"}`)
	for until := h.clock.Now().Add(20 * time.Second); ; {
		b, err := os.ReadFile(v.Log)
		if m := ready.FindSubmatch(b); err == nil && m != nil {
			v.pid, err = strconv.Atoi(string(m[1]))
			return err
		}
		if i := bytes.Index(b, []byte(`{"k":"open"`)); i >= 0 {
			return fmt.Errorf("a worker could not begin: %s", b[i:])
		}
		select {
		case <-v.dead:
			if text := said(v.cmd); text != "" {
				return fmt.Errorf("a worker ended: %s", text)
			}
			return nil // at its point, already
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
		if h.clock.Now().After(until) {
			return fmt.Errorf("a worker did not open the store within 20 s")
		}
	}
}

// read reads the logs, and answers which transactions the store is asked about.
func (h *history) read(paths []string) (logs [][]check.Line, asks []string, err error) {
	for _, p := range paths {
		lines, err := check.ReadLog(p)
		if err != nil {
			return nil, nil, err
		}
		logs = append(logs, lines)
		for _, l := range lines {
			switch l.Kind {
			case check.Try:
				h.done.Ops++
				if l.Tx && len(l.Writes) > 0 {
					asks = append(asks, l.Op)
				}
			case check.Ack:
				h.done.Acked++
			case check.Unknown:
				h.done.Unknown++
			}
		}
	}
	return logs, asks, nil
}

// recover lets another process open the store.
func (h *history) recover(ctx context.Context, asks []string) (map[string]bool, error) {
	s := spec{Store: h.store, Asks: filepath.Join(h.dir, "asks"), Answers: filepath.Join(h.dir, "answers")}
	if err := os.WriteFile(s.Asks, []byte(strings.Join(asks, "\n")), 0o600); err != nil {
		return nil, err
	}
	cmd := h.child(ctx, "recover", s)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("recovery: %w: %s", err, said(cmd))
	}
	b, err := os.ReadFile(s.Answers)
	if err != nil {
		return nil, err
	}
	var answers map[string]bool
	return answers, json.Unmarshal(b, &answers)
}

// look reads what is stored.
func (h *history) look(ctx context.Context) ([]check.Fault, error) {
	var err error
	if h.now, err = check.Read(ctx, h.store.places()); err != nil {
		return nil, fmt.Errorf("look at what is stored: %w", err)
	}
	return h.now.Faults, nil
}
