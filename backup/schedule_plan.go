package backup

import "time"

// firstRetry is how long after a failure a run is tried again; each further
// failure doubles it.
const firstRetry = time.Minute

// Plan is what a schedule does next.
type Plan struct {
	Run time.Time // which run, by the instant at which it is due
	At  time.Time // when it begins: then, or later when it was missed or has failed
	Try int       // 1 for the first attempt
}

// Due tells whether it should begin.
func (p Plan) Due(now time.Time) bool { return !p.At.After(now) }

// Plan answers what to do next. The newest run that was missed is made up for at
// once; one that failed is tried again until the next is due.
func (s *Schedule) Plan(st State, now time.Time) Plan {
	since := s.since(st, now)
	run, missed := s.Missed(since, now)
	at := now
	if !missed {
		if since.Before(now) {
			since = now
		}
		run = s.Next(since)
		at = run
	}
	if st.Tries == 0 || !st.Run.Equal(run) {
		return Plan{Run: run, At: at, Try: 1}
	}
	if again := st.LastRun.Add(backoff(st.Tries)); again.After(at) {
		at = again
	}
	from := run
	if from.Before(now) {
		from = now
	}
	if next := s.Next(from); !at.Before(next) {
		return Plan{Run: next, At: next, Try: 1}
	}
	return Plan{Run: run, At: at, Try: st.Tries + 1}
}

// Observe notes what the clock shows: the latest time seen, and where counting of
// missed runs begins.
func (s *Schedule) Observe(st State, now time.Time) State {
	switch since := s.since(st, now); {
	case !st.LastGood.IsZero() && !st.LastGood.After(now):
		st.Since = time.Time{}
	case since.Equal(now):
		st.Since = now
	}
	st.see(now)
	return st
}

// since answers the time up to which no run is missed.
//
// A last run that lies in the future says that the clock went back. Where that is
// by less than half of the time between two runs, the run is taken as made, so
// that it is not made twice. Where it is by more, the clock was wrong before, and
// the run was made now at the latest: the next one comes in its turn, rather
// than after years.
func (s *Schedule) since(st State, now time.Time) time.Time {
	switch {
	case !st.LastGood.IsZero() && !st.LastGood.After(now):
		if st.Ahead.After(st.LastGood) && !st.Ahead.After(now) {
			return st.Ahead
		}
		return st.LastGood
	case !st.Since.IsZero() && !st.Since.After(now):
		return st.Since
	case !st.LastGood.IsZero() && st.LastGood.Sub(now) <= s.Next(now).Sub(s.Last(now))/2:
		return st.LastGood
	}
	return now
}

// backoff answers how long after so many failures the next attempt begins.
func backoff(tries int) time.Duration { return firstRetry << min(max(tries-1, 0), 20) }
