package tiertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sagestore/sagestore/tiers"
)

func linearRules() []rule {
	return []rule{
		{
			name: "one key is linearizable",
			why:  "every call takes effect at one instant between its begin and its end",
			run:  func(t *T) { t.linearizable([]tiers.Tier{t.Tier}) },
		},
		{
			name: "one key is linearizable across handles", when: shared,
			why: "the same holds for all that share the store",
			run: func(t *T) { t.linearizable([]tiers.Tier{t.Tier, t.Open()}) },
		},
	}
}

// call is what was asked of the key.
type call struct {
	kind  kind
	value string // to save
	cond  tiers.Cond
}

// answer is what came back.
type answer struct {
	value   string
	version tiers.Version // 0 when absent
	existed bool
	refused error // ErrExists or ErrConflict
}

// state of the key in the model. High is the highest version so far, which a
// delete does not lower.
type state struct {
	value         string
	version, high tiers.Version
}

// Short histories of few callers keep the search small; many of them find what
// a long one would.
const (
	linearRounds  = 10
	linearCallers = 4
	linearCalls   = 15 // of each caller in each round
	linearLimit   = 10 * time.Second
)

func (t *T) linearizable(handles []tiers.Tier) {
	for round := range linearRounds {
		k := numbered("k", round)
		history := t.history(k, handles)
		switch porcupine.CheckOperationsTimeout(linearModel(), history, linearLimit) {
		case porcupine.Ok:
		case porcupine.Illegal:
			t.Fatalf("no order of these calls explains their answers:\n%s", describe(history))
		case porcupine.Unknown:
			t.Errorf("the checker found no answer for %d calls within %v", len(history), linearLimit)
		}
	}
}

// history lets the callers work on the key at random. Its times are numbers of
// a common counter, which grows in the order of real time.
func (t *T) history(k tiers.Key, handles []tiers.Tier) []porcupine.Operation {
	var ticks atomic.Int64
	var mu sync.Mutex
	var all []porcupine.Operation
	t.workers(linearCallers, func(worker int) {
		h := handles[worker%len(handles)]
		var seen tiers.Version
		for i := range linearCalls {
			c := randomCall(fmt.Sprintf("%d-%d", worker, i), seen)
			begin := ticks.Add(1)
			a, err := t.perform(h, k, c)
			end := ticks.Add(1)
			if err != nil {
				t.Fatalf("%s: %v", c.kind, err)
			}
			if a.version != 0 {
				seen = a.version
			}
			mu.Lock()
			all = append(all, porcupine.Operation{ClientId: worker, Input: c, Call: begin, Output: a, Return: end})
			mu.Unlock()
		}
	})
	return all
}

func randomCall(value string, seen tiers.Version) call {
	switch rand.IntN(10) { //nolint:gosec // not a secret
	case 0, 1, 2:
		return call{kind: kindLoad}
	case 3, 4:
		return call{kind: kindSave, value: value}
	case 5:
		return call{kind: kindDelete}
	case 6:
		return call{kind: kindDelete, cond: tiers.If(max(seen, 1))}
	case 7:
		return call{kind: kindSave, value: value, cond: tiers.If(0)}
	default:
		return call{kind: kindSave, value: value, cond: tiers.If(max(seen, 1))}
	}
}

func (t *T) perform(h tiers.Tier, k tiers.Key, c call) (a answer, err error) {
	var r tiers.Record
	switch c.kind {
	case kindLoad:
		r, err = h.Load(t.ctx, k)
		if errors.Is(err, tiers.ErrNotFound) {
			return answer{}, nil
		}
		a.value = string(r.Value)
	case kindDelete:
		a.existed, err = h.Delete(t.ctx, k, c.cond)
	default:
		r, err = h.Save(t.ctx, raw(k, c.value), c.cond)
	}
	a.version = r.Version
	for _, refusal := range []error{tiers.ErrExists, tiers.ErrConflict} {
		if errors.Is(err, refusal) {
			return answer{refused: refusal}, nil
		}
	}
	return a, err
}

func linearModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(before, input, output any) (bool, any) {
			s, c, a := before.(state), input.(call), output.(answer) //nolint:forcetypeassert // it is what history puts in
			if refused := c.cond.Holds(s.version); !errors.Is(a.refused, refused) || (refused == nil) != (a.refused == nil) {
				return false, s
			} else if refused != nil {
				return true, s
			}
			switch c.kind {
			case kindLoad:
				return a.version == s.version && a.value == s.value, s
			case kindDelete:
				return a.existed == (s.version != 0), state{high: s.high}
			default:
				return a.version > s.high, state{value: c.value, version: a.version, high: a.version}
			}
		},
	}
}

func describe(history []porcupine.Operation) string {
	var out strings.Builder
	for _, op := range history {
		c, a := op.Input.(call), op.Output.(answer) //nolint:forcetypeassert // it is what history puts in
		want := "any"
		if v, ok := c.cond.Version(); ok {
			want = fmt.Sprint(v)
		}
		fmt.Fprintf(&out, "%3d-%3d caller %d: %s %q over %s -> %q at %d, existed %v, refused %v\n",
			op.Call, op.Return, op.ClientId, c.kind, c.value, want, a.value, a.version, a.existed, a.refused)
	}
	return out.String()
}
