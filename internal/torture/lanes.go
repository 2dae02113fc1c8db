//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// sideBySide wears out several stores at a time, each with a Redis, a seed and a
// directory of its own. The first that finds something ends the others.
func (t *torture) sideBySide(ctx context.Context) error {
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	lanes, errs := make([]*torture, t.lanes), make([]error, t.lanes)
	var wg sync.WaitGroup
	for i := range lanes {
		lanes[i] = &torture{
			kills: t.share(t.kills, i), rounds: t.share(t.rounds, i), seed: t.done.Seed + uint64(i), dir: filepath.Join(t.dir, fmt.Sprintf("lane-%d", i)),
			faults: t.faults, cache: t.cache, callers: t.callers, plain: t.plain, agents: t.agents, postgres: t.postgres, quiet: true, exe: t.exe, out: io.Discard,
		}
		wg.Go(func() {
			if errs[i] = lanes[i].run(all); errs[i] != nil {
				cancel()
			}
		})
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		wg.Wait()
	}()
	for running := true; running; {
		select {
		case <-over:
			running = false
		case <-time.After(time.Second):
		}
		if !t.quiet && running {
			t.tell(false)
		}
	}
	t.tell(true)
	var found []error
	for _, err := range errs {
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.Canceled)) {
			found = append(found, err)
		}
	}
	if len(found) > 0 {
		return errors.Join(found...)
	}
	if t.mine {
		return os.RemoveAll(t.dir)
	}
	return nil
}

// share answers how much of something lane i has to do.
func (t *torture) share(all, i int) int {
	n := all / t.lanes
	if i < all%t.lanes {
		n++
	}
	return n
}

// gather adds up what the lanes have written down.
func (t *torture) gather() {
	sum := progress{Seed: t.done.Seed, Points: map[string]int{}, Faults: map[string]int{}}
	for i := range t.lanes {
		lane, err := readProgress(filepath.Join(t.dir, fmt.Sprintf("lane-%d", i), "progress.json"))
		if err != nil {
			continue // it has not come that far
		}
		sum.Kills += lane.Kills
		sum.Rounds += lane.Rounds
		sum.Stores += lane.Stores
		sum.Ops += lane.Ops
		sum.Acked += lane.Acked
		sum.Unknown += lane.Unknown
		sum.Seconds = max(sum.Seconds, lane.Seconds)
		add(sum.Points, lane.Points)
		add(sum.Faults, lane.Faults)
	}
	t.done = sum
}

func add(to, from map[string]int) {
	for k := range maps.Keys(from) {
		to[k] += from[k]
	}
}
