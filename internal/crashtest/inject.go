package crashtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// tries is how many children are run until the call of an [Injection] is reached.
const tries = 10

// Injection is a system call that fails. Each thread of the child counts its calls by
// itself (strace(1), "per syscall and per tracee"), and a goroutine may change its
// thread: the call fails once in each that comes so far, which may be none.
type Injection struct {
	Calls string // as strace takes them: "fsync,fdatasync"
	Error string // "EIO", "ENOSPC"
	When  int    // the how-manieth call of a thread fails, from 1
	// Files restricts the injection to these files, which are relative to the
	// directory of the store. Without it every such call counts, those of the
	// Go runtime too, so that calls like write need it.
	Files []string
	// Callers is how many goroutines save at once, by default 8. With one it is
	// certain which operation met the failure.
	Callers int
	// Ops is how many operations each caller does, by default 200.
	Ops int
}

// Outcome is what a child lived through.
type Outcome struct {
	Injected bool    // the call was reached, and failed
	Acked    int     // operations that were acknowledged
	Late     int     // those of them that began after some caller had got an error
	Errors   []Event // in the order in which they came
}

// Inject runs a child in whose first Ops operations a system call fails, ends it
// without a clean close, opens the store again and checks that everything
// acknowledged is there. Where the call was not reached the next child goes on with
// the store. What the child had to get as errors is for the caller to say. The test
// is skipped where strace can't run, except in CI.
func Inject(t *testing.T, s Store, in Injection) Outcome {
	t.Helper()
	need(t, "strace", canTrace(t.Context()))
	dir := t.TempDir()
	if in.Callers == 0 {
		in.Callers = callers
	}
	if in.Ops == 0 {
		in.Ops = 200
	}
	// The store is made beforehand, so that the injection meets saves only.
	l := newLedger(in.Callers)
	if err := s.verify(t.Context(), dir, l); err != nil {
		t.Fatal(err)
	}
	var out Outcome
	for try := 1; try <= tries && !out.Injected; try++ {
		l.base = try * 1_000_000
		var err error
		if out, err = s.trace(t.Context(), dir, filepath.Join(t.TempDir(), "trace"), in, l); err != nil {
			t.Fatal(err)
		}
		if err := s.verify(t.Context(), dir, l); err != nil {
			t.Fatalf("%s %s at call %d, %d acknowledged, then opened again: %v", in.Calls, in.Error, in.When, out.Acked, err)
		}
	}
	return out
}

func (s Store) trace(ctx context.Context, dir, log string, in Injection, l *ledger) (out Outcome, err error) {
	argv := []string{
		"strace", "-f", "-qq", "-o", log, "-e", "trace=" + in.Calls,
		"-e", "inject=" + in.Calls + ":error=" + in.Error + ":when=" + strconv.Itoa(in.When),
	}
	for _, f := range in.Files {
		argv = append(argv, "-P", filepath.Join(dir, f))
	}
	cmd, err := s.self(ctx, dir, l.base, in.Callers, in.Ops, argv...)
	if err != nil {
		return out, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return out, err
	}
	defer func() { _ = r.Close() }()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return out, err
	}
	var bad error
	err = readEvents(r, func(e Event) {
		switch e.Kind {
		case "ack":
			out.Acked++
			if e.Late {
				out.Late++
			}
			if err := l.ack(e); err != nil {
				bad = err
			}
		case "err":
			out.Errors = append(out.Errors, e)
			l.fail(e)
		case "open":
			bad = fmt.Errorf("the child could not open the store: %s", e.Text)
		}
	})
	_ = cmd.Wait()
	if bad != nil {
		return out, bad
	}
	text, readErr := os.ReadFile(log) //nolint:gosec // a file of the test's own
	out.Injected = strings.Contains(string(text), "(INJECTED)")
	if err == nil {
		err = readErr
	}
	return out, err
}

// canTrace tells whether strace is there and may trace.
func canTrace(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "strace", "-qq", "-o", "/dev/null", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("it can't trace here: %w: %s", err, out)
	}
	return nil
}
