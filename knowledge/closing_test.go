package knowledge_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// What closing has no time for is left to the next run, and is no error of closing.
func TestCollectionThatTakesTooLongAtTheEndIsLeftToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var slow atomic.Bool
		m, err := manager.Open(ctx, routeTo("memory").Config(t, ""), sagetest.Failing(drivers(), func(_ string, k tiers.Key) error {
			if slow.Load() && k.Category == "knowledge.bodies" {
				time.Sleep(time.Minute)
			}
			return nil
		}))
		must(t, err)
		k := knowledge.New(m)
		for _, text := range []string{"one", "two", "three"} {
			value[knowledge.Cache](t)(k.Put(ctx, "s", text, 1))
		}
		slow.Store(true)
		if err := m.Close(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("closing answers %v", err)
		}
	})
}
