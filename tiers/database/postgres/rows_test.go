package postgres

import (
	"fmt"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// TestARowLeavesTheJournalByItsOwnNumberOnly: while some replace rows, others say that
// those of before are done, which takes nothing away that has come since.
func TestARowLeavesTheJournalByItsOwnNumberOnly(t *testing.T) {
	t.Parallel()
	const handles, rounds, keys = 3, 150, 2
	c := shared(t)
	var mu sync.Mutex
	last, done := map[tiers.Key]uint64{}, map[uint64]bool{}
	var wg sync.WaitGroup
	first := open1(t, c)
	for h := range handles {
		tier := open1(t, c)
		wg.Go(func() {
			for i := range rounds {
				row := tiers.Row{Record: record(fmt.Sprint("k", i%keys), "v"), Tier: "cache"}
				out, err := tier.Append(t.Context(), []tiers.Row{row}, []tiers.Cond{{}}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				last[row.Key] = max(last[row.Key], out[0].Seq)
				mu.Unlock()
			}
		})
		wg.Go(func() {
			for range rounds {
				rows, err := tier.Due(t.Context(), "cache", 0, 128)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i := range rows {
					done[rows[i].Seq] = true
				}
				mu.Unlock()
				if err := tier.Done(t.Context(), rows); err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() { // by the way that takes no turn for itself
			for i := range rounds {
				if _, err := tier.Save(t.Context(), record(fmt.Sprint(h, i), "v"), tiers.Cond{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for k, seq := range last {
		row, err := first.Pending(t.Context(), "cache", k)
		if !done[seq] && (err != nil || row.Seq != seq) {
			t.Errorf("%s: row %d, of which nobody said that it is done, is gone: there is %d, %v", k.Name, seq, row.Seq, err)
		}
	}
}
