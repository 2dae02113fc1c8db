package txn_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database/postgres"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/txn"
)

// pausing stops whoever has read the rows that are due, the first time that there are some.
type pausing struct {
	*postgres.Tier
	once       atomic.Bool
	read, goOn chan struct{}
}

func (p *pausing) Due(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
	rows, err := p.Tier.Due(ctx, tier, after, limit)
	if len(rows) > 0 && p.once.CompareAndSwap(false, true) {
		close(p.read)
		<-p.goOn
	}
	return rows, err
}

// A process reads a row and is stopped, and loses its lock with its connection; another
// one applies the row, and the key is deleted.
func TestApplierThatLostItsLockBringsNothingBack(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t, pgtest.Config{NoSync: true})
	ctx, dir := t.Context(), t.TempDir()
	open := func(system func(*postgres.Tier) tiers.System) (*postgres.Tier, *txn.Journaled) {
		t.Helper()
		store, err := postgres.Open(ctx, postgres.Config{URL: srv.URL("postgres")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close(context.Background()) })
		files, err := file.Open(ctx, file.Config{BasePath: dir})
		if err != nil {
			t.Fatal(err)
		}
		j, err := txn.Journal(ctx, files, system(store), txn.Config{Tier: "file"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close(context.Background()) })
		return store, j
	}
	p := &pausing{read: make(chan struct{}), goOn: make(chan struct{})}
	store, stopped := open(func(s *postgres.Tier) tiers.System { p.Tier = s; return p })
	row := tiers.Row{Record: rec("k", "v"), Tier: "file", Owner: "o"}
	if _, err := store.Append(ctx, []tiers.Row{row}, nil, 0); err != nil {
		t.Fatal(err)
	}
	<-p.read
	_, other := open(func(s *postgres.Tier) tiers.System { return s })
	srv.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if left, err := other.Retry(wait, true); left.Rows > 0 {
		t.Errorf("%d rows are left: %v", left.Rows, err)
	}
	if existed, err := other.Delete(ctx, row.Key, tiers.Cond{}); err != nil || !existed {
		t.Errorf("the deletion answers %v, %v", existed, err)
	}
	close(p.goOn)
	if left, err := stopped.Retry(wait, true); left.Rows > 0 { // after what it was at
		t.Errorf("%d rows are left: %v", left.Rows, err)
	}
	if r, err := other.Load(ctx, row.Key); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("what was deleted is there again: %q, %v", r.Value, err)
	}
}
