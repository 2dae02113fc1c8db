package crashtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// The second caller commits transactions where the store decides any: each saves
// all of its keys, and leaves a row of the journal for each. Rows of every other
// one are applied at once.

// rowTier is the tier of the rows.
const rowTier = "crash"

func commitID(n int) string { return fmt.Sprint("operation-", n) }

// applies tells whether the rows of operation n are applied.
func applies(n int) bool { return n%2 == 0 }

// decides answers how a store decides transactions, if caller c is the one to use
// it.
func decides(t tiers.Tier, c, callers int) (tiers.Committer, tiers.System, bool) {
	committer, ok := tiers.As[tiers.Committer](t)
	system, is := tiers.As[tiers.System](t)
	return committer, system, ok && is && c == 1 && callers > 1
}

func (w *writer) stepCommit(ctx context.Context, n int, late bool) {
	c := tiers.Commit{ID: commitID(n)}
	for j := range keysOf {
		r := newRecord(keyOf(w.caller, j), n)
		c.Saves = append(c.Saves, r)
		c.Rows = append(c.Rows, tiers.Row{Record: r, Tier: rowTier, Owner: "crashtest"})
	}
	out, err := w.commit.Commit(ctx, c)
	for j := range c.Saves {
		e := Event{Kind: "ack", Key: c.Saves[j].Name, N: n, Late: late}
		if err == nil {
			e.Version = out.Saves[j].Version
		}
		w.tell(e, err)
	}
	if err == nil && applies(n) {
		if err := w.system.Done(ctx, out.Rows); err != nil {
			w.failed.Store(true)
		}
	}
}

// checkCommit compares what is there of the last transaction: records, rows and
// what is said of its outcome. made are the operations that the records come from.
func checkCommit(ctx context.Context, committer tiers.Committer, system tiers.System, caller int, made map[int]bool) error {
	if len(made) > 1 {
		return fmt.Errorf("a transaction is torn: its records come from operations %v", made)
	}
	n := 0
	for op := range made {
		n = op
	}
	rows := 0
	for j := range keysOf {
		k := keyOf(caller, j)
		row, err := system.Pending(ctx, rowTier, k)
		if errors.Is(err, tiers.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		of, err := decode(k.Name, row.Value)
		if err != nil {
			return fmt.Errorf("the row of %q is torn: %w", k.Name, err)
		}
		if of != n {
			return fmt.Errorf("a transaction is torn: its records come from operation %d, the row of %q from %d", n, k.Name, of)
		}
		rows++
	}
	if rows != keysOf && (rows != 0 || n != 0 && !applies(n)) {
		return fmt.Errorf("a transaction is torn: of operation %d there are %d of %d rows", n, rows, keysOf)
	}
	for op, want := range map[int]bool{n: n != 0, n + 1: false} {
		committed, err := committer.Outcome(ctx, commitID(op))
		if err != nil {
			return err
		}
		if committed != want {
			return fmt.Errorf("the outcome of operation %d is said to be %v, but the records come from operation %d", op, committed, n)
		}
	}
	return nil
}
