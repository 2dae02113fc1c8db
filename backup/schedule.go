package backup

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

const (
	// DefaultAt is the time of day of a daily or weekly backup.
	DefaultAt = "03:30"
	// DefaultJitter is by how much daily and weekly backups of different stores
	// are spread at most.
	DefaultJitter = 10 * time.Minute
)

// Timing says when backups are made. Its zero value is every day at 03:30, and
// up to ten minutes later.
type Timing struct {
	Interval string // "hourly" (on the hour), "daily" or "weekly" (on Sunday); "": daily
	At       string // time of day of a daily or weekly one; "": DefaultAt
	Cron     string // minute hour day month weekday; instead of Interval and At
	Zone     string // name in the time zone database; "" and "Local": the machine's
	// Store decides how late within Jitter each run is, always equally late, so
	// that many stores do not begin at once. "": on time.
	Store string
	// Jitter is 0 for DefaultJitter, which hourly ones and those by Cron do
	// without; below 0 for none.
	Jitter time.Duration
}

// Schedule names the instants at which backups are due. It is immutable and safe
// for concurrent use.
//
// A time that is skipped when clocks are set forward is the first instant after;
// one that comes twice when they are set back is the first of both, except that
// what runs in every hour runs in each hour that passes. A day that a zone
// skipped has no run.
type Schedule struct {
	zone   *time.Location
	times  fields
	jitter time.Duration
}

// ParseSchedule checks a timing.
func ParseSchedule(t Timing) (*Schedule, error) {
	fail := func(err error, hint string) (*Schedule, error) {
		return nil, &tiers.Error{Op: "schedule", Err: err, Hint: hint}
	}
	s := &Schedule{}
	var err error
	if s.zone, err = time.LoadLocation(cmp.Or(t.Zone, "Local")); err != nil {
		return fail(fmt.Errorf("zone: %w", err), "write a name such as Europe/Paris; the machine needs a time zone database")
	}
	limit := time.Duration(0)
	switch {
	case t.Cron != "" && (t.Interval != "" || t.At != ""):
		return fail(errors.New("cron contradicts interval and at"), "remove one")
	case t.Cron != "":
		s.times, err = parseCron(t.Cron)
	case t.Interval == "hourly" && t.At != "":
		return fail(errors.New("at has no meaning for an hourly backup"), "remove it, or write a cron expression such as \"15 * * * *\"")
	case t.Interval == "hourly":
		s.times, err = parseCron("0 * * * *")
	default:
		limit = DefaultJitter
		s.times, err = parseAt(t.Interval, cmp.Or(t.At, DefaultAt))
	}
	if err != nil {
		return fail(err, "write interval hourly, daily or weekly and at 03:30, or cron \"30 3 * * *\"")
	}
	if s.Next(time.Unix(0, 0)).IsZero() {
		return fail(fmt.Errorf("%q: there is no such day", t.Cron), "write a day that its month has")
	}
	if limit = max(0, cmp.Or(t.Jitter, limit)); limit > 0 && t.Store != "" {
		sum := sha256.Sum256([]byte(t.Store))
		seconds := max(1, int64(limit/time.Second))
		s.jitter = time.Duration(int64(binary.BigEndian.Uint32(sum[:]))%seconds) * time.Second
	}
	return s, nil
}

func parseAt(interval, at string) (fields, error) {
	clock, err := time.Parse("15:04", at)
	if err != nil {
		return fields{}, fmt.Errorf("%q is no time of day", at)
	}
	days := "*"
	switch interval {
	case "", "daily":
	case "weekly":
		days = "0"
	default:
		return fields{}, fmt.Errorf("%q is no interval", interval)
	}
	return parseCron(fmt.Sprintf("%d %d * * %s", clock.Minute(), clock.Hour(), days))
}

// Zone answers the time zone whose clocks the schedule goes by. Retention counts
// days in it as well.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Jitter answers how much later than its time each run is.
func (s *Schedule) Jitter() time.Duration { return s.jitter }

// Next answers the first run after t.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.Add(-s.jitter)
	today := dateOf(t.In(s.zone))
	for i := -1; i <= longest; i++ {
		ts := s.days(today.add(i))
		if j, _ := slices.BinarySearchFunc(ts, t, later); j < len(ts) {
			return ts[j].Add(s.jitter).In(s.zone)
		}
	}
	return time.Time{}
}

// Last answers the last run that is not after t.
func (s *Schedule) Last(t time.Time) time.Time {
	t = t.Add(-s.jitter)
	today := dateOf(t.In(s.zone))
	for i := -1; i >= -longest; i-- {
		ts := s.days(today.add(i))
		if j, _ := slices.BinarySearchFunc(ts, t, later); j > 0 {
			return ts[j-1].Add(s.jitter).In(s.zone)
		}
	}
	return time.Time{}
}

// Missed answers the newest run after last that should have been at now. However
// many were missed, one makes up for all.
func (s *Schedule) Missed(last, now time.Time) (run time.Time, ok bool) {
	run = s.Last(now)
	return run, run.After(last)
}

// later orders the instants up to t before those after it.
func later(at, t time.Time) int {
	if at.After(t) {
		return 1
	}
	return -1
}

// days answers the instants of three days from d, without jitter, in order.
// Where clocks are set back over midnight, the instants of two days alternate:
// that is why it is never one day alone.
func (s *Schedule) days(d date) (ts []time.Time) {
	for range 3 {
		if s.times.day(d) {
			ts = s.appendDay(ts, d)
		}
		d = d.add(1)
	}
	slices.SortFunc(ts, time.Time.Compare)
	return slices.CompactFunc(ts, time.Time.Equal)
}

func (s *Schedule) appendDay(ts []time.Time, d date) []time.Time {
	day := newLocalDay(d, s.zone)
	if !day.exists(s.zone) {
		return ts
	}
	for hour := range 24 {
		if s.times.hours>>hour&1 == 0 {
			continue
		}
		for minute := range 60 {
			switch {
			case s.times.minutes>>minute&1 == 0:
			case s.times.everyHour():
				ts = append(ts, day.all(hour, minute)...)
			default:
				ts = append(ts, day.first(hour, minute))
			}
		}
	}
	return ts
}
