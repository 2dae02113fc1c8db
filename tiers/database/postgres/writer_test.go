package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestCallersThatLeaveTakeTheirWorkAlong(t *testing.T) {
	t.Parallel()
	tier := open1(t, shared(t))
	give := holdTurn(t, tier)
	stays := make(chan error, 1)
	go func() {
		_, err := tier.Save(t.Context(), record("stays", "v"), tiers.If(0))
		stays <- err
	}()
	waitsForTurn(t, tier)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			_, err := tier.Save(ctx, record("leaves", "v"), tiers.If(0))
			if !errors.Is(err, context.Canceled) || errors.Is(err, tiers.ErrCommitUnknown) {
				t.Errorf("a save answers %v, want a plain end of the context", err)
			}
		})
	}
	for tier.writer.queue.length() <= 1000 {
		_ = tiers.SystemClock().Sleep(t.Context(), time.Millisecond)
	}
	leave()
	wg.Wait()
	if n := tier.writer.queue.length(); n > 2 {
		t.Errorf("%d jobs are in the queue, of which one has a caller", n)
	}
	give()
	if err := <-stays; err != nil {
		t.Errorf("the save whose caller has stayed answers %v", err)
	}
	if _, err := tier.Load(t.Context(), named("leaves")); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("what has left the queue is stored: %v", err)
	}
}
