package txn

import (
	"context"
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
)

// leaving is a system store whose caller leaves just after a row was stored.
type leaving struct {
	tiers.System
	leave context.CancelFunc
}

func (l leaving) Append(ctx context.Context, rows []tiers.Row, cs []tiers.Cond, limit int64) ([]tiers.Row, error) {
	stored, err := l.System.Append(ctx, rows, cs, limit)
	if l.leave(); err == nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return stored, err
}

func TestLeaseIsGivenBackByOneWhoLeavesAsHeTakesIt(t *testing.T) {
	m, err := memory.New(memory.Options{SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	system, ok := tiers.As[tiers.System](m)
	if !ok {
		t.Fatal("the memory tier is no system store")
	}
	ctx, leave := context.WithCancel(t.Context())
	first := &Journaled{system: leaving{system, leave}, name: "cache", owner: "first", clock: tiers.SystemClock()}
	if l, err := first.lease(ctx); err == nil {
		l.release(ctx)
	}
	second := &Journaled{system: system, name: "cache", owner: "second", clock: tiers.SystemClock()}
	l, err := second.lease(t.Context())
	if err != nil {
		t.Fatalf("the next one has to wait: %v", err)
	}
	l.release(t.Context())
}
