package postgres

import (
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// TestASwitchAmongRowsThatAreDoneHasATransactionOfItsOwn: in one group with what removes a
// row of its space it can't be, and comes after that.
func TestASwitchAmongRowsThatAreDoneHasATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	tier := open1(t, shared(t))
	waiting := tiers.Row{Record: record("k", "waits"), Tier: "file"}
	rows, err := tier.Append(t.Context(), []tiers.Row{waiting}, []tiers.Cond{{}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	comes := record("new", "comes")
	comes.Category, comes.Version = "-from", 7
	if err := tier.Apply(t.Context(), []tiers.Record{comes}, nil); err != nil {
		t.Fatal(err)
	}
	since, err := tier.Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := tier.read.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), takeTurn, lockKey(tier.schema, "writer")); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 3)
	for i, do := range []func() error{
		func() error {
			_, err := tier.Save(t.Context(), record("first", "v"), tiers.If(0))
			return err
		},
		func() error { return tier.Done(t.Context(), rows) },
		func() error {
			_, _, err := tier.SwitchRows(t.Context(), nil, []tiers.RowMove{{
				From: tiers.Space{Category: "-from"}, Gone: tiers.Space{Category: "-gone"}, To: waiting.Space(),
				Tier: "file", Owner: "owner", Version: rows[0].Version + 1, Since: since,
			}})
			return err
		},
	} {
		go func() { answers <- do() }()
		queued := func() int {
			tier.writer.queue.mu.Lock()
			defer tier.writer.queue.mu.Unlock()
			return len(tier.writer.queue.jobs)
		}
		for queued() <= i {
			_ = tiers.SystemClock().Sleep(t.Context(), time.Millisecond)
		}
		if i == 0 { // its group has begun, and the others will be one
			stuck(t, tier, 1, `locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = $1`, lockKey(tier.schema, "writer"))
		}
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	due, err := tier.Due(t.Context(), "file", 0, 9)
	if err != nil || len(due) != 1 || due[0].Name != "new" {
		t.Errorf("%v wait, %v", due, err)
	}
}
