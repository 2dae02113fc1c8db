package backup

import (
	"sort"
	"time"
)

// date is a day as a calendar names it, in no zone.
type date struct {
	year  int
	month time.Month
	day   int
}

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return date{y, m, d}
}

func (d date) add(days int) date { return dateOf(d.utc(0, 0).AddDate(0, 0, days)) }

// utc reads a time of that day as if it were in UTC.
func (d date) utc(hour, minute int) time.Time {
	return time.Date(d.year, d.month, d.day, hour, minute, 0, 0, time.UTC)
}

const (
	// around a day's noon in UTC are all the instants that its times may be, even
	// where clocks are set by a whole day to change sides of the date line.
	around = 30 * time.Hour
	// probing is less than what ever was between two changes of clocks.
	probing = 6 * time.Hour
)

// stretch is a time during which the clocks of a zone have one distance to UTC.
type stretch struct {
	start, end time.Time // zero: open
	offset     time.Duration
}

func (s stretch) has(t time.Time) bool {
	return !t.Before(s.start) && (s.end.IsZero() || t.Before(s.end))
}

// localDay answers which instants the times of one day are.
type localDay struct {
	date
	stretches []stretch // near that day, in order
}

// newLocalDay looks for changes of clocks by their distance to UTC. What
// [time.Time.ZoneBounds] answers only tells that there is none: for the last day
// of a leap year it ends before it begins, once there is nothing but a rule for
// the years to come.
func newLocalDay(d date, zone *time.Location) localDay {
	noon := d.utc(12, 0)
	t, last := noon.Add(-around), noon.Add(around)
	if start, end := noon.In(zone).ZoneBounds(); !start.After(t) && (end.IsZero() || end.After(last)) {
		return localDay{date: d, stretches: []stretch{{offset: offset(noon, zone)}}}
	}
	day := localDay{date: d, stretches: []stretch{{offset: offset(t, zone)}}}
	for ; t.Before(last); t = t.Add(probing) {
		current := &day.stretches[len(day.stretches)-1]
		if next := offset(t.Add(probing), zone); next != current.offset {
			current.end = change(t, t.Add(probing), zone)
			day.stretches = append(day.stretches, stretch{start: current.end, offset: next})
		}
	}
	return day
}

// change answers the second at which clocks are set between two instants.
func change(before, after time.Time, zone *time.Location) time.Time {
	old := offset(before, zone)
	seconds := sort.Search(int(after.Sub(before)/time.Second), func(i int) bool {
		return offset(before.Add(time.Duration(i)*time.Second), zone) != old
	})
	return before.Add(time.Duration(seconds) * time.Second)
}

func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// first answers the first instant that has this time of the day. A time that was
// skipped is the instant at which it was.
func (d localDay) first(hour, minute int) time.Time {
	wall := d.utc(hour, minute)
	for _, s := range d.stretches {
		t := wall.Add(-s.offset)
		switch {
		case s.has(t):
			return t
		case t.Before(s.start): // and after the end of the one before
			return s.start
		}
	}
	return wall // not reached: the last stretch ends days later
}

// all answers every instant that has this time of the day, of which there are
// two where clocks are set back. One that was skipped is the instant at which it
// was.
func (d localDay) all(hour, minute int) []time.Time {
	wall := d.utc(hour, minute)
	var ts []time.Time
	for _, s := range d.stretches {
		if t := wall.Add(-s.offset); s.has(t) {
			ts = append(ts, t)
		}
	}
	if ts == nil {
		ts = append(ts, d.first(hour, minute))
	}
	return ts
}

// exists tells whether the zone has had any of that day.
func (d localDay) exists(zone *time.Location) bool {
	return dateOf(d.first(0, 0).In(zone)) == d.date
}
