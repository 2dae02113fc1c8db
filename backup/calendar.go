package backup

import "time"

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

// around is how far the clocks of a zone are ever set at once: a day, where one
// was skipped to change sides of the date line.
const around = 36 * time.Hour

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

func newLocalDay(d date, zone *time.Location) localDay {
	day := localDay{date: d}
	noon := d.utc(12, 0)
	for t, last := noon.Add(-2*around), noon.Add(2*around); ; {
		local := t.In(zone)
		start, end := local.ZoneBounds()
		_, offset := local.Zone()
		day.stretches = append(day.stretches, stretch{start: start, end: end, offset: time.Duration(offset) * time.Second})
		if end.IsZero() || end.After(last) {
			return day
		}
		t = end
	}
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
