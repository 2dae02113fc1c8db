package session_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// What a process has no time for at its end is left to the next one, and is no error of
// what it was asked for.
func TestDeletionThatTakesTooLongAtTheEndIsLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var broken, slow atomic.Bool
		m, err := manager.Open(ctx, routeTo("memory").Config(t, t.TempDir()), sagetest.Failing(drivers(), func(op string, k tiers.Key) error {
			if k.Category != "session.events" || !strings.HasPrefix(op, "list") {
				return nil
			}
			if slow.Load() {
				time.Sleep(time.Minute)
			}
			if broken.Load() {
				return errors.New("the process is interrupted")
			}
			return nil
		}))
		must(t, err)
		s := session.New(m)
		begin(t, s, "s")
		broken.Store(true)
		value[bool](t)(s.Delete(ctx, "s"))
		broken.Store(false)
		slow.Store(true)
		if err := m.Close(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("closing answers %v", err)
		}
	})
}
