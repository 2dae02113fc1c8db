package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultLast is how many verified backups a policy without a rule keeps.
	DefaultLast = 7
	// DefaultUnverified is by how much the newest verified backup must be newer
	// than one that is not verified, before the latter is removed.
	DefaultUnverified = 7 * 24 * time.Hour
	// DefaultTolerance is how far a clock may be set back, by time servers above
	// all, without that being a reason to refuse.
	DefaultTolerance = 10 * time.Minute
)

// Kept is a backup that exists, as far as retention needs to know it.
type Kept struct {
	ID       string
	Created  time.Time // zero: unknown; such a one stays and does not count
	Verified time.Time // zero: not verified, or verification failed
	Bytes    int64     // of the data before it was compressed; the same measure for all
	Records  int64     // of all categories
	// Parts are the records of each part, by name; what was left out is not there.
	Parts map[string]int64
	Store string // whose it is; "": unknown
	// Unjudged is why it can't be told here whether it is sound, in a few words: its
	// key is not here, or a newer version made it. "": it can be told. Such a one
	// stays and does not count.
	Unjudged string
}

// Policy says which backups stay. The rules add up: a backup stays when one of
// them wants it. A policy without a rule keeps the last [DefaultLast].
type Policy struct {
	Last int           // the newest so many
	Age  time.Duration // those that the newest is newer than by less than this; 0: no such rule
	// The last one of each of the newest so many days, weeks (of ISO 8601) and
	// months that have one.
	Daily, Weekly, Monthly int
	Zone                   *time.Location // whose days these are; nil: the machine's

	// Store is the one whose backups these rules are for: those of others stay and do
	// not count. "": its id is not known; then all have to be of one, else none is removed.
	Store string
	// Unknown is why the id of a store that is there is not known, in a few words. None is
	// removed then, since none is known to be its.
	Unknown string

	Unverified time.Duration // 0: DefaultUnverified
	Tolerance  time.Duration // 0: DefaultTolerance

	// Seen is the latest time that was ever read from the clock, as
	// [State].LastSeen has it; zero: unknown.
	Seen time.Time
	// Accepted is when somebody looked at the clock and found it right, as
	// [State].Accepted has it: backups from the future are no reason to refuse
	// from then on. They stay and do not count.
	Accepted time.Time
	// Smaller is when somebody found it right that a backup had shrunk, as
	// [State].Smaller has it: that one and those before it are no reason to refuse.
	Smaller time.Time
}

// Decision is what becomes of a backup.
type Decision struct {
	ID   string
	Keep bool
	Why  string // one line for people
}

// Decide answers what becomes of each backup, newest first. It only decides, and
// depends on nothing but its arguments.
//
// Only verified backups count, and the newest of them always stays. Ages are
// counted from it rather than from now: while no new verified backup comes,
// nothing more is removed however many nights fail. One that is not verified
// stays while it is newer than all verified ones, and then until the newest
// verified one is [Policy].Unverified newer. One that can't be judged here stays, and
// so does one of another store.
//
// An error that wraps [ErrRefused] says why nothing may be removed and what to
// do about it; the decisions keep everything then.
func Decide(backups []Kept, p Policy, now time.Time) ([]Decision, error) {
	p = p.withDefaults()
	all := slices.Clone(backups)
	slices.SortFunc(all, func(a, b Kept) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})
	if short, err := p.refusal(all, now); err != nil {
		ds := make([]Decision, len(all))
		for i, b := range all {
			ds[i] = Decision{ID: b.ID, Keep: true, Why: "nothing is removed: " + short}
		}
		return ds, err
	}

	var verified []Kept
	for _, b := range all {
		if p.counts(b, now) {
			verified = append(verified, b)
		}
	}
	wanted := p.wanted(verified)
	ds := make([]Decision, len(all))
	for i, b := range all {
		keep := true
		var why string
		switch {
		case p.foreign(b):
			why = "of another store, " + b.Store
		case b.Unjudged != "":
			why = "can't be judged here: " + b.Unjudged
		case p.future(b, now):
			why = "its time lies in the future, so its age is unknown"
		case b.Created.IsZero():
			why = "its time can't be read, so its age is unknown; look at it, and remove it by hand"
		case len(verified) == 0:
			why = "not verified, and there is no verified one"
		case b.Verified.IsZero():
			keep, why = p.unverified(b, verified[0])
		default:
			if keep = len(wanted[b.ID]) > 0; keep {
				why = strings.Join(wanted[b.ID], ", ")
			} else {
				why = p.unwanted()
			}
		}
		ds[i] = Decision{ID: b.ID, Keep: keep, Why: why}
	}
	return ds, nil
}

func (p Policy) withDefaults() Policy {
	if p.Last == 0 && p.Age == 0 && p.Daily == 0 && p.Weekly == 0 && p.Monthly == 0 {
		p.Last = DefaultLast
	}
	if p.Zone == nil {
		p.Zone = time.Local
	}
	p.Unverified = cmp.Or(p.Unverified, DefaultUnverified)
	p.Tolerance = cmp.Or(p.Tolerance, DefaultTolerance)
	return p
}

// counts tells a backup by which others may be measured.
func (p Policy) counts(b Kept, now time.Time) bool {
	return !p.foreign(b) && b.Unjudged == "" && !b.Verified.IsZero() && !b.Created.IsZero() && !p.future(b, now)
}

func (p Policy) foreign(b Kept) bool { return p.Store != "" && b.Store != "" && b.Store != p.Store }

func (p Policy) future(b Kept, now time.Time) bool { return b.Created.After(now.Add(p.Tolerance)) }

// wanted answers the reasons for each one that stays. The backups are verified,
// newest first.
func (p Policy) wanted(verified []Kept) map[string][]string {
	why := make(map[string][]string)
	for i, b := range verified {
		if i == 0 {
			why[b.ID] = append(why[b.ID], "the newest verified one")
		}
		if i < p.Last {
			why[b.ID] = append(why[b.ID], fmt.Sprintf("%d of the last %d", i+1, p.Last))
		}
		if p.Age > 0 && verified[0].Created.Sub(b.Created) < p.Age {
			why[b.ID] = append(why[b.ID], "within "+span(p.Age)+" of the newest")
		}
	}
	for _, rule := range p.calendar() {
		seen := make(map[string]struct{})
		for _, b := range verified {
			name := rule.name(b.Created.In(p.Zone))
			if _, had := seen[name]; had {
				continue
			}
			if len(seen) >= rule.n {
				break
			}
			seen[name] = struct{}{}
			why[b.ID] = append(why[b.ID], "the last of "+rule.unit+" "+name)
		}
	}
	return why
}

// calendarRule keeps the last backup of each of n periods.
type calendarRule struct {
	n    int
	unit string
	name func(time.Time) string // of the period that a time is in
}

func (p Policy) calendar() []calendarRule {
	return []calendarRule{
		{p.Daily, "day", func(t time.Time) string { return t.Format(time.DateOnly) }},
		{p.Weekly, "week", func(t time.Time) string {
			year, week := t.ISOWeek()
			return fmt.Sprintf("%d-W%02d", year, week)
		}},
		{p.Monthly, "month", func(t time.Time) string { return t.Format("2006-01") }},
	}
}

func (p Policy) unverified(b, newest Kept) (keep bool, why string) {
	switch {
	case !b.Created.Before(newest.Created):
		return true, "not verified, but no verified one is newer"
	case newest.Created.Sub(b.Created) < p.Unverified:
		return true, "not verified; removed once a verified one is " + span(p.Unverified) + " newer"
	}
	return false, "not verified, and a verified one is " + span(p.Unverified) + " newer"
}

// unwanted is why a verified one goes.
func (p Policy) unwanted() string {
	var rules []string
	if p.Last > 0 {
		rules = append(rules, fmt.Sprintf("the last %d", p.Last))
	}
	if p.Age > 0 {
		rules = append(rules, "the last "+span(p.Age))
	}
	for _, r := range p.calendar() {
		if r.n > 0 {
			rules = append(rules, fmt.Sprintf("%d %s", r.n, plural(r.unit, r.n)))
		}
	}
	return "not needed for " + strings.Join(rules, " or ")
}

// span is a duration for people, in days where it is whole days.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day != 0 {
		return d.String()
	}
	n := int(d / day)
	return fmt.Sprintf("%d %s", n, plural("day", n))
}

func plural(unit string, n int) string {
	if n == 1 {
		return unit
	}
	return unit + "s"
}
