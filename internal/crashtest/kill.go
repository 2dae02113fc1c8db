package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

// callers is how many goroutines save at once in a child.
const callers = 8

// Kill runs children on one directory and ends each by SIGKILL at a random
// moment: 25 of them, 500 with CI=true, SAGESTORE_KILLS of them when that is
// set. After each it opens the store and checks it.
func Kill(t *testing.T, s Store) {
	t.Helper()
	ctx := t.Context()
	dir := t.TempDir()
	l := newLedger(callers)
	acked := 0
	for round := range kills(t) {
		l.base = (round + 1) * 1_000_000
		n, err := s.killOne(ctx, dir, l)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		acked += n
		if err := s.verify(ctx, dir, l); err != nil {
			t.Fatalf("after kill %d, with %d operations acknowledged so far: %v", round+1, acked, err)
		}
	}
	if acked == 0 {
		t.Fatal("no child got anything acknowledged; nothing was tested")
	}
	t.Logf("%d operations acknowledged", acked)
}

func (s Store) killOne(ctx context.Context, dir string, l *ledger) (acked int, err error) {
	cmd, err := s.self(ctx, dir, l.base, l.callers, 0)
	if err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return 0, err
	}
	var once sync.Once
	kill := func() { once.Do(func() { _ = cmd.Process.Kill() }) }
	var errs []error
	err = readEvents(r, func(e Event) {
		switch e.Kind {
		case "ready":
			time.AfterFunc(rand.N(60*time.Millisecond), kill) //nolint:gosec // not a secret
		case "ack":
			acked++
			if err := l.ack(e); err != nil {
				errs = append(errs, err)
			}
		default:
			errs = append(errs, fmt.Errorf("the child got an error: %v", e))
		}
	})
	kill()
	_ = cmd.Wait()
	return acked, errors.Join(append(errs, err)...)
}

// verify opens the store and checks it.
func (s Store) verify(ctx context.Context, dir string, l *ledger) error {
	t, err := s.Open(ctx, dir)
	if err != nil {
		return fmt.Errorf("it does not open again: %w", err)
	}
	return errors.Join(l.check(ctx, t), t.Close(ctx))
}
