package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagestore/sagestore/tiers"
)

// A program that was stopped for a while finds that the server has ended its transaction.
func TestTransactionThatTheServerHasEndedIsBegunAnew(t *testing.T) {
	tier := open1(t, shared(t))
	for name, open := range map[string]bool{"before it has read": true, "after it has read": false} {
		t.Run(name, func(t *testing.T) {
			c, err := tier.read.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w := newWriter(tier, false)
			w.conn = c
			defer func() { w.leave(); w.release() }()
			if _, err := c.Exec(t.Context(), "SET idle_in_transaction_session_timeout = '20ms'"); err != nil {
				t.Fatal(err)
			}
			stop := func() { _ = tiers.SystemClock().Sleep(t.Context(), 200*time.Millisecond) }
			if open {
				if !w.openFirst() {
					t.Fatal("no transaction is begun")
				}
				stop()
			}
			r := record("k", name)
			p, err := tier.prepare(&r)
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			j := &job{done: make(chan struct{}), wants: func(w *wants) { w.records[p.Key] = true }}
			j.run = func(x *tx) error {
				if runs++; runs == 1 && !open {
					stop()
				}
				_, err := x.save(p, tiers.Cond{})
				return err
			}
			if err := w.queue.add(j); err != nil {
				t.Fatal(err)
			}
			w.group()
			if <-j.done; j.err != nil {
				t.Errorf("the save answers %v", j.err)
			}
			if got, err := tier.Load(t.Context(), named("k")); err != nil || string(got.Value) != name {
				t.Errorf("it loads %q with %v", got.Value, err)
			}
		})
	}
	for _, code := range []string{"25P03", "25P04"} {
		if err := tier.plain(&pgconn.PgError{Severity: "FATAL", Code: code}); !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("%s is %v", code, err)
		}
	}
}
