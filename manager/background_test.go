package manager_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestBackgroundRunsEverySoOftenAndOnceMoreAtClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := value[*manager.Manager](t)(manager.OpenMemory(t.Context(), all()))
		var ran atomic.Int64
		must(t, m.Background("count", time.Minute, func(context.Context) error { ran.Add(1); return nil }))
		time.Sleep(10*time.Minute + time.Second)
		if got := ran.Load(); got != 10 {
			t.Errorf("ran %d times in ten minutes", got)
		}
		closeNow(t, m)
		if got := ran.Load(); got != 11 {
			t.Errorf("ran %d times with the last", got)
		}
	})
}

func TestLastingFailureOfAJobIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := sagetest.Open(t, manager.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		fail := atomic.Bool{}
		fail.Store(true)
		must(t, m.Background("moody", time.Second, func(context.Context) error {
			if fail.Load() {
				return errors.Join(errors.New("no luck"), &tiers.Error{Op: "load", Category: "app.notes", Key: "user-42", Err: tiers.ErrFull})
			}
			return nil
		}))
		time.Sleep(10*time.Second + 500*time.Millisecond) // between two turns
		synctest.Wait()
		if n := strings.Count(log.String(), "moody"); n != 1 {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		if text := log.String(); !strings.Contains(text, tiers.ErrFull.Error()) || strings.Contains(text, "user-42") {
			t.Errorf("the log has no cause, or a key: %s", text)
		}
		fail.Store(false)
		time.Sleep(time.Second)
		fail.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := strings.Count(log.String(), "moody"); n != 2 {
			t.Errorf("a new failure is logged again: %d times", n)
		}
		fail.Store(false)
	})
}

func TestBackgroundRefusesNothingToDo(t *testing.T) {
	t.Parallel()
	m := sagetest.Open(t)
	if m.Background("../x", time.Second, func(context.Context) error { return nil }) == nil {
		t.Error("a name that leads elsewhere is accepted")
	}
	if m.Background("x", 0, func(context.Context) error { return nil }) == nil || m.Background("x", time.Second, nil) == nil {
		t.Error("it is accepted")
	}
}
