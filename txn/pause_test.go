package txn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// Those who met once would meet again if they waited equally long, and one that waits
// ever longer would never come to an end.
func TestPausesAfterConflictsGrowAndDifferAndHaveABound(t *testing.T) {
	const retries = 40
	pauses := func() (all []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			e, err := txn.New(txn.EngineConfig{})
			if err != nil {
				t.Fatal(err)
			}
			var last time.Time
			err = e.Update(t.Context(), func(*txn.Tx) error {
				if !last.IsZero() {
					all = append(all, time.Since(last))
				}
				last = tiers.SystemClock().Now()
				return tiers.ErrConflict
			}, txn.Options{Retry: retries})
			if err == nil || len(all) != retries {
				t.Errorf("%d pauses, and then %v", len(all), err)
			}
		})
		return all
	}
	first, second := pauses(), pauses()
	same := 0
	for i, want := 0, 500*time.Microsecond; i < retries; i, want = i+1, min(2*want, 50*time.Millisecond) {
		if first[i] < want/2 || first[i] >= want*3/2 {
			t.Errorf("pause %d takes %v, want about %v", i, first[i], want)
		}
		if first[i] == second[i] {
			same++
		}
	}
	if same > retries/4 {
		t.Errorf("%d pauses of %d are the same for two callers", same, retries)
	}
}
