//go:build linux

package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers, for a look at the journal
	_ "modernc.org/sqlite"

	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// drained is how long the journal may take to become empty.
const drained = 15 * time.Second

// recover opens the store as the next user would, waits until the journal is
// empty, asks for outcomes and closes.
func recoverStore(ctx context.Context, s spec) (err error) {
	var mu sync.Mutex
	var opened []tiers.Tier
	var m *manager.Manager
	err = patiently(func() (err error) {
		opened = nil
		m, err = s.Store.open(ctx, newPoints("", 0, false), func(_ string, t tiers.Tier) {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, t)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("the store does not open: %w", err)
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	// At once: no commit is on its way any more whose outcome was asked for.
	if err := outcomes(ctx, m, s.Asks, s.Answers); err != nil {
		return err
	}
	if err := s.Store.waitForJournal(ctx); err != nil {
		return err
	}
	for _, t := range opened {
		if sw, ok := tiers.As[tiers.Sweeper](t); ok {
			err := patiently(func() error {
				_, err := sw.Sweep(ctx, 10_000)
				return err
			})
			if err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
		}
	}
	if s.Store.Agents != "" {
		err := patiently(func() error {
			st, err := settleAgents(ctx, m)
			if err != nil {
				return err
			}
			b, err := json.Marshal(st)
			if err != nil {
				return err
			}
			return os.WriteFile(s.Answers, b, 0o600)
		})
		return errors.Join(err, s.Store.waitForJournal(ctx))
	}
	return nil
}

// patiently tries again when a server does not answer in time, as one does on a busy
// machine. It counts, since a machine that was suspended has no time left by the clock.
func patiently(fn func() error) (err error) {
	for range 20 {
		if err = fn(); !errors.Is(err, tiers.ErrUnavailable) {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
	return err
}

// found makes the accounts of a new store.
func found(ctx context.Context, s spec) (err error) {
	m, err := s.Store.open(ctx, newPoints("", 0, false), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	col := collectionsOf(m)
	for _, tier := range durable() {
		for i := range accounts {
			v := check.Value{Op: "founded", N: 1, Sum: balance, Pad: check.Pad("founded")}
			if err := col["bank."+tier].Save(ctx, account(i), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitForJournal waits until no row waits any more. Guards stay, which are none that do.
func (s store) waitForJournal(ctx context.Context) (err error) {
	driver, place, table := "sqlite", "file:"+s.places().Database+"?mode=ro&_pragma=busy_timeout(5000)", "journal"
	if s.Postgres != "" {
		driver, place, table = "pgx", s.Postgres, s.Schema+".journal"
	}
	db, err := sql.Open(driver, place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	clock := tiers.SystemClock()
	for until := clock.Now().Add(drained); ; {
		var n int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE tier NOT LIKE '%.reached'").Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if clock.Now().After(until) {
			return fmt.Errorf("%d rows are left in the journal after %s", n, drained)
		}
		if err := clock.Sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// outcomes asks for each transaction of a file.
func outcomes(ctx context.Context, m *manager.Manager, asks, answers string) (err error) {
	if asks == "" {
		return nil
	}
	in, err := os.Open(asks) //nolint:gosec // named by the parent
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out := map[string]bool{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		o, err := m.Outcome(ctx, lines.Text())
		if err != nil {
			return fmt.Errorf("outcome of %s: %w", lines.Text(), err)
		}
		out[lines.Text()] = o == manager.Committed
	}
	b, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return os.WriteFile(answers, b, 0o600)
}
