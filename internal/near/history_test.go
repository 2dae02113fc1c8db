package near

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sagestore/sagestore/tiers"
)

// plainHome is a home of one key whose calls take effect at some moment between
// their begin and their end.
type plainHome struct {
	mu      sync.Mutex
	version tiers.Version
	live    bool
}

func dawdle() {
	for range rand.IntN(4) {
		runtime.Gosched()
	}
}

func (h *plainHome) load() (tiers.Record, error) {
	dawdle()
	h.mu.Lock()
	r, live := *record(h.version), h.live
	h.mu.Unlock()
	dawdle()
	if !live {
		return tiers.Record{}, tiers.ErrNotFound
	}
	return r, nil
}

func (h *plainHome) change(live bool) tiers.Version {
	dawdle()
	h.mu.Lock()
	h.version++
	h.live = live
	v := h.version
	h.mu.Unlock()
	dawdle()
	return v
}

// through is what a caller of a layer does.
type through struct {
	*Layer
	home *plainHome
}

func (c through) load(ctx context.Context, fresh bool) (tiers.Version, error) {
	for {
		var e *Entry
		var f *Flight
		mine := fresh
		if fresh {
			f = c.Lead(k)
		} else {
			e, f, mine = c.Join(k)
		}
		switch {
		case e != nil && e.Absent():
			return 0, nil
		case e != nil:
			return e.Record().Version, nil
		case mine && !fresh && rand.IntN(8) == 0:
			f.Land(&tiers.Record{}, context.Canceled, true) // the leader leaves
			continue
		}
		var r tiers.Record
		var err error
		var again bool
		if mine {
			r, err = c.home.load()
			f.Land(&r, err, false)
		} else if _, r, again, err = f.Wait(ctx); again {
			continue
		}
		if errors.Is(err, tiers.ErrNotFound) {
			return 0, nil
		}
		return r.Version, err
	}
}

// In one process every load finds the last change that was acknowledged before it
// began, or a later one, and once one load has found a change all later ones do.
func TestLoadsAndChangesOfOneProcessHaveAnOrder(t *testing.T) {
	rounds := 1000
	if os.Getenv("CI") == "true" {
		rounds = 4000
	}
	for range rounds {
		l, _ := newLayer(t, time.Hour)
		c := through{l, &plainHome{}}
		var mu sync.Mutex
		var all []porcupine.Operation
		var g sync.WaitGroup
		began := tiers.SystemClock().Now()
		for client := range 4 {
			g.Go(func() {
				for range 6 {
					what := []string{"load", "load", "load", "fresh", "save", "save", "delete", "drop"}[rand.IntN(8)]
					call := time.Since(began)
					var v tiers.Version
					switch what {
					case "load", "fresh":
						v, _ = c.load(t.Context(), what == "fresh")
					case "save":
						ch := l.Change(k)
						v = c.home.change(true)
						ch.Saved(record(v))
					case "delete":
						ch := l.Change(k)
						v = c.home.change(false)
						ch.Removed()
					case "drop":
						l.Drop(k, 0)
						continue
					}
					mu.Lock()
					all = append(all, porcupine.Operation{ClientId: client, Input: what, Output: v, Call: int64(call), Return: int64(time.Since(began))})
					mu.Unlock()
				}
			})
		}
		g.Wait()
		if !porcupine.CheckOperations(oneKey(), all) {
			for _, o := range all {
				t.Logf("%d %v %v %d %d", o.ClientId, o.Input, o.Output, o.Call, o.Return)
			}
			t.Fatal("these have no order")
		}
	}
}

// oneKey has the version that is live, 0 for none, as its state.
func oneKey() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return tiers.Version(0) },
		Step: func(state, input, output any) (bool, any) {
			v := output.(tiers.Version)
			switch input {
			case "save":
				return true, v
			case "delete":
				return true, tiers.Version(0)
			}
			return state == v, state
		},
	}
}
