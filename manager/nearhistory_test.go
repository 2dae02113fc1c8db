package manager_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// One process always sees its last acknowledged save, whatever its near layer held:
// plain calls, conditions and transactions of six callers have an order.
func TestHistoriesThroughANearLayerAreLinearizable(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"database", "file"} {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			m, _ := openNear(t, home)
			c := manager.For[int](m, "app.notes")
			var g sync.WaitGroup
			var mu sync.Mutex
			var ops []porcupine.Operation
			for client := range 6 {
				g.Go(func() {
					seen := make([]tiers.Version, historyKeys)
					for i := range 30 {
						s := step{
							Client: client, Key: rand.IntN(historyKeys), Value: client*1000 + i + 1,
							Op: []string{"get", "get", "get", "save", "delete", "if", "swap"}[rand.IntN(7)],
						}
						s.If = seen[s.Key]
						s.Begin = tiers.SystemClock().Now().UnixNano()
						err := s.do(t.Context(), m, c, false)
						s.End = tiers.SystemClock().Now().UnixNano()
						if err != nil {
							t.Errorf("%+v: %v", s, err)
							return
						}
						seen[s.Key] = max(s.Found.Version, s.Version)
						mu.Lock()
						ops = append(ops, porcupine.Operation{ClientId: client, Input: s, Call: s.Begin, Return: s.End})
						mu.Unlock()
					}
				})
			}
			g.Wait()
			if got := porcupine.CheckOperationsTimeout(historyModel, ops, time.Minute); got != porcupine.Ok {
				for _, o := range ops {
					t.Logf("%+v", o.Input)
				}
				t.Errorf("there is no order in which this could have happened one by one: %v", got)
			}
			if s := nearStats(t, m, "app.notes"); s.Hits == 0 {
				t.Errorf("the layer answered nothing: %+v", s)
			}
		})
	}
}
