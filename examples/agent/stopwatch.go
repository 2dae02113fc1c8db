package main

import (
	"slices"
	"time"
)

// stopwatch keeps how long the saves and loads of each category took.
type stopwatch struct{ saves, loads map[string][]time.Duration }

func newStopwatch() *stopwatch {
	return &stopwatch{saves: map[string][]time.Duration{}, loads: map[string][]time.Duration{}}
}

func (s *stopwatch) saved(category string, d time.Duration) {
	s.saves[category] = append(s.saves[category], d)
}

func (s *stopwatch) loaded(category string, d time.Duration) {
	s.loads[category] = append(s.loads[category], d)
}

func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	ds = slices.Clone(ds)
	slices.Sort(ds)
	return ds[len(ds)/2].Round(100 * time.Nanosecond)
}
