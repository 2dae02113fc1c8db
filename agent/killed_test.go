package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
)

// The environment of a child, which works on a store until it is killed.
const (
	envChildDir   = "SAGESTORE_AGENT_CHILD_DIR"
	envChildPlace = "SAGESTORE_AGENT_CHILD_ROUTING"
)

// killable is a store that outlives the process which works on it.
func killable(at int, dir string) (*manager.Manager, *agent.Store, error) {
	cfg := routings()[at].config(nil, dir)
	m, err := manager.Open(context.Background(), cfg, driversOf(cfg))
	if err != nil {
		return nil, nil, err
	}
	return m, agent.New(m), nil
}

// childOf does three things at once and prints what was acknowledged.
func childOf(place, dir string) error {
	at, err := strconv.Atoi(place)
	if err != nil {
		return err
	}
	_, s, err := killable(at, dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	var mu sync.Mutex
	tell := func(what string, n int) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(os.Stdout, "%s %d\n", what, n) // nobody may listen any more
	}
	tell("ready", 0)
	errs := make(chan error, 3)
	go func() { errs <- saveTogether(ctx, s, tell) }()
	go func() { errs <- countUp(ctx, s, tell) }()
	go func() { errs <- stepOn(ctx, s, tell) }()
	return <-errs
}

func saveTogether(ctx context.Context, s *agent.Store, tell func(string, int)) error {
	f := s.Fields("worker")
	var n int
	if err := f.Load(ctx, "a", &n); err != nil {
		return err
	}
	for {
		n++
		tell("trying", n)
		if err := f.SaveAll(ctx, map[string]any{"a": n, "b": n, "c": n}); err != nil {
			return err
		}
		tell("fields", n)
	}
}

func countUp(ctx context.Context, s *agent.Store, tell func(string, int)) error {
	counter, err := agent.Persist(ctx, s.Fields("worker"), "counter", 0)
	for err == nil {
		if err = counter.Update(ctx, func(n *int) error { *n++; return nil }); err == nil {
			tell("counter", counter.Get())
		}
	}
	return err
}

func stepOn(ctx context.Context, s *agent.Store, tell func(string, int)) error {
	every2, err := agent.EveryN(2)
	if err != nil {
		return err
	}
	run, err := s.Run(ctx, "worker", agent.RunOptions{Strategy: every2, Keep: 3, TakeOver: true})
	for err == nil {
		next := run.Iteration() + 1
		_, err = run.Step(ctx, agent.Iteration, func(tx *manager.Tx) error {
			m := agent.NewMessage(agent.User, fmt.Sprint(next))
			_, err := s.In(tx).AppendMessage(ctx, "talk", m)
			return errors.Join(err, tx.Save(ctx, "learning.patterns", "steps", next))
		})
		if err == nil {
			tell("step", next)
		}
	}
	return err
}

// killOne runs a child for a moment and answers what was acknowledged last.
func killOne(ctx context.Context, at int, dir string) (acked map[string]int, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), envChildDir+"="+dir, envChildPlace+"="+strconv.Itoa(at))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	acked = map[string]int{}
	// After so many acknowledgments, wherever it is then.
	left, killed := rand.IntN(40), false
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			break // a line that was cut off is none
		}
		if err != nil {
			return nil, errors.Join(err, cmd.Wait())
		}
		var what string
		var n int
		if _, err := fmt.Sscan(line, &what, &n); err != nil {
			return nil, fmt.Errorf("it says %q: %w", line, err)
		}
		if acked[what] = n; what != "trying" {
			left--
		}
		if left < 0 && !killed {
			killed = true
			time.AfterFunc(rand.N(10*time.Millisecond), func() { _ = cmd.Process.Kill() })
		}
	}
	if !killed {
		return nil, errors.Join(errors.New("the child ended by itself"), cmd.Wait())
	}
	_ = cmd.Wait() // it was killed
	return acked, nil
}

// TestAKillLosesAndRepeatsNoStep kills a process that saves fields together, counts in
// a value that stores itself, and works in steps with checkpoints.
func TestAKillLosesAndRepeatsNoStep(t *testing.T) {
	t.Parallel()
	kills := 4
	if os.Getenv("CI") == "true" {
		kills = 8
	}
	if n, err := strconv.Atoi(os.Getenv("SAGESTORE_KILLS")); err == nil {
		kills = n
	}
	for _, at := range []int{1, 2, 3, 5} {
		t.Run(routings()[at].name, func(t *testing.T) {
			t.Parallel()
			ctx, dir := t.Context(), t.TempDir()
			m, s, err := killable(at, dir)
			ok(t, err)
			ok(t, s.Save(ctx, agent.NewState("worker", "", "")))
			c := agent.NewConversation("worker")
			c.ID = "talk"
			ok(t, s.SaveConversation(ctx, c))
			ok(t, s.Fields("worker").SaveAll(ctx, map[string]any{"a": 0, "b": 0, "c": 0, "before": "as it was"}))
			ok(t, m.Close(ctx))
			last := map[string]int{}
			for range kills {
				acked := must(killOne(ctx, at, dir))(t)
				for what, n := range last {
					acked[what] = max(acked[what], n)
				}
				last = survived(t, at, dir, acked)
			}
			if last["step"] == 0 || last["counter"] == 0 || last["fields"] == 0 {
				t.Errorf("nothing was done: %v", last)
			}
			t.Logf("after %d kills: %v", kills, last)
		})
	}
}

// survived looks at what a killed child has left, and answers what of it there is.
func survived(t *testing.T, at int, dir string, acked map[string]int) map[string]int {
	t.Helper()
	ctx := t.Context()
	m, s, err := killable(at, dir)
	ok(t, err)
	defer func() { ok(t, m.Close(context.WithoutCancel(ctx))) }()
	is := map[string]int{}

	f := s.Fields("worker")
	for _, name := range []string{"a", "b", "c"} {
		var n int
		if ok(t, f.Load(ctx, name, &n)); name != "a" && n != is["fields"] {
			t.Errorf("%s is %d beside %d: not all or none", name, n, is["fields"])
		}
		is["fields"] = n
	}
	var before string
	if ok(t, f.Load(ctx, "before", &before)); before != "as it was" {
		t.Errorf("what was stored before is %q", before)
	}
	if n := is["fields"]; n < acked["fields"] || n > max(acked["fields"], acked["trying"]) {
		t.Errorf("the fields are of save %d, of which %d was acknowledged", n, acked["fields"])
	}

	is["counter"] = persist(t, f, "counter", 0).Get()
	if n := is["counter"]; n < acked["counter"] || n > acked["counter"]+1 {
		t.Errorf("the counter is %d, of which %d was acknowledged", n, acked["counter"])
	}

	run := must(s.Run(ctx, "worker", agent.RunOptions{TakeOver: true}))(t)
	steps := run.Iteration()
	if is["step"] = steps; steps < acked["step"] || steps > acked["step"]+1 {
		t.Errorf("%d steps are done, of which %d were acknowledged", steps, acked["step"])
	}
	var noted int
	if steps > 0 {
		ok(t, m.Load(ctx, "learning.patterns", "steps", &noted))
	}
	if noted != steps {
		t.Errorf("the app's own record is of step %d, the run of %d", noted, steps)
	}
	inOrder(t, "the conversation", contents(t, s, "talk", agent.Page{}), steps)
	for i, info := range collected(t, s.Checkpoints(ctx, "worker", agent.After{})) {
		if want := steps - steps%2 - 2*i; info.Iteration != want {
			t.Errorf("after %d steps a checkpoint is of step %d, want %d", steps, info.Iteration, want)
		}
		var said []string
		for _, m := range shownBy(t, s, info.ID).Conversations[0].Messages {
			said = append(said, m.Content)
		}
		inOrder(t, "checkpoint "+info.ID, said, info.Iteration)
	}
	if last, there := run.Resumed(); there != (steps > 1) || last.Iteration != steps-steps%2 {
		t.Errorf("after %d steps it resumes after %d", steps, last.Iteration)
	}
	return is
}

func inOrder(t *testing.T, what string, said []string, steps int) {
	t.Helper()
	if len(said) != steps {
		t.Errorf("%s has %d messages after %d steps", what, len(said), steps)
	}
	for i, text := range said {
		if text != strconv.Itoa(i+1) {
			t.Errorf("message %d of %s is of step %s", i+1, what, text)
			return
		}
	}
}
