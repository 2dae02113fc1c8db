package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// op does one unit of work as one of several callers; i grows with each call of
// that caller, so that values differ.
type op func(ctx context.Context, caller, i int) error

// comparison is one line of the table: the same work done by sagestore and by
// the raw driver, in turns, in one run.
type comparison struct {
	work    string
	against string
	callers int
	// units that one op of ours and one op of the raw side do: 100 for a batch
	// of 100 keys.
	oursUnits, rawUnits int
	// rawCallers is how many callers the raw side has, when not callers.
	rawCallers int

	kind      kind
	must, aim float64 // 0: no bound

	// rest, when set, is waited for after each turn of ours: what it left to be done
	// in the background is not to be counted as the raw side's.
	rest func(ctx context.Context) error

	setup func(ctx context.Context, dir string) (ours, raw op, closing func(), err error)
}

// kind says how a comparison is judged.
type kind int

const (
	slower kind = iota // time of ours by time of raw, at most
	faster             // time of raw by time of ours, at least
	added              // nanoseconds that ours adds, at most
	millis             // milliseconds of ours, at most; there is no other side
)

// result is what one comparison measured: medians over the rounds.
type result struct {
	ours, raw        time.Duration // per unit
	ratio, low, high float64
}

// measure runs both sides in turns and answers the median of the ratios of
// neighbouring rounds, which a machine whose speed drifts does not spoil.
func measure(ctx context.Context, c comparison, dir string, rounds int, each time.Duration) (result, error) {
	ours, raw, closing, err := c.setup(ctx, dir)
	if err != nil {
		return result{}, err
	}
	defer closing()
	if c.kind == millis {
		return alone(ctx, ours, rounds)
	}
	oursUnits, rawUnits, rawCallers := max(c.oursUnits, 1), max(c.rawUnits, 1), c.rawCallers
	if rawCallers == 0 {
		rawCallers = c.callers
	}
	var ots, rts []time.Duration
	var ratios []float64
	for round := range rounds + 1 {
		o, err := perUnit(ctx, ours, c.callers, oursUnits, each)
		if err != nil {
			return result{}, fmt.Errorf("ours: %w", err)
		}
		if c.rest != nil {
			if err := c.rest(ctx); err != nil {
				return result{}, fmt.Errorf("ours: %w", err)
			}
		}
		r, err := perUnit(ctx, raw, rawCallers, rawUnits, each)
		if err != nil {
			return result{}, fmt.Errorf("raw: %w", err)
		}
		if round == 0 { // warm-up
			continue
		}
		ots, rts = append(ots, o), append(rts, r)
		switch c.kind {
		case slower:
			ratios = append(ratios, float64(o)/float64(r))
		case faster:
			ratios = append(ratios, float64(r)/float64(o))
		case added:
			ratios = append(ratios, float64(o-r))
		}
	}
	slices.Sort(ots)
	slices.Sort(rts)
	slices.Sort(ratios)
	mid := len(ratios) / 2
	return result{ours: ots[mid], raw: rts[mid], ratio: ratios[mid], low: ratios[0], high: ratios[len(ratios)-1]}, nil
}

// alone measures work that looks at the clock itself.
func alone(ctx context.Context, do op, rounds int) (result, error) {
	var times []time.Duration
	for round := range rounds {
		var m measured
		if err := do(ctx, 0, round); !errors.As(err, &m) {
			return result{}, fmt.Errorf("ours: %w", err)
		}
		times = append(times, m.took)
	}
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	mid := times[len(times)/2]
	return result{ours: mid, ratio: ms(mid), low: ms(times[0]), high: ms(times[len(times)-1])}, nil
}

// perUnit lets the callers work for about d and answers the wall time per unit.
func perUnit(ctx context.Context, do op, callers, units int, d time.Duration) (time.Duration, error) {
	var (
		wg    sync.WaitGroup
		done  atomic.Int64
		fault atomic.Pointer[error]
	)
	start := time.Now()
	base := int(start.UnixNano() / 1000)
	for caller := range callers {
		wg.Go(func() {
			// Looking at the clock costs as much as a quick op, so it is looked
			// at only about every hundred microseconds.
			n, next := 0, 1
			for ; ; n++ {
				if n == next {
					now := time.Now()
					if now.Sub(start) > d {
						break
					}
					pace := max(now.Sub(start)/time.Duration(n), 1)
					next = n + max(1, int(100*time.Microsecond/pace))
				}
				if err := do(ctx, caller, base+n); err != nil {
					fault.CompareAndSwap(nil, &err)
					return
				}
			}
			done.Add(int64(n))
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := fault.Load(); err != nil {
		return 0, *err
	}
	return took / time.Duration(max(done.Load(), 1)*int64(units)), nil
}
