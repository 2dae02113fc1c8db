package backup_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
)

// A machine of ten years: it sleeps, is switched off, has its clock set, and has
// nights that fail. Nothing touches a disk.
type machine struct {
	t        *testing.T
	random   *rand.Rand
	schedule *backup.Schedule
	policy   backup.Policy

	now    time.Time     // as it is
	wrong  time.Duration // how far the clock is ahead of that
	state  backup.State
	kept   []backup.Kept
	made   map[time.Time]int // runs made while the clock was right
	latest time.Time         // that the clock has shown since it was last accepted

	right     time.Time // when the clock is put right; zero: it is
	disturbed time.Time // when the clock was last wrong, or put right
	failing   map[string]bool
	shrunk    bool        // the last backup did
	alarmed   []string    // the larger ones before one that did, while nobody has found that right
	small     time.Time   // when the last such one came
	asked     time.Time   // since when a prune is refused for one that shrank
	awake     time.Time   // since when
	verified  int         // how many were
	missed    []time.Time // runs that came while the machine slept
	runs      int
	pruned    int
	refused   int
	caught    int
}

func (m *machine) clock() time.Time { return m.now.Add(m.wrong) }

// look reads the clock, as a runner does each minute.
func (m *machine) look() {
	m.state = m.schedule.Observe(m.state, m.clock())
	if m.clock().After(m.latest) {
		m.latest = m.clock()
	}
}

func (m *machine) between(low, high time.Duration) time.Duration {
	return low + time.Duration(m.random.Int64N(int64(high-low)))
}

// restart keeps nothing but what is stored.
func (m *machine) restart() {
	b, err := json.Marshal(m.state)
	if err != nil {
		m.t.Fatal(err)
	}
	m.state = backup.State{}
	if err := json.Unmarshal(b, &m.state); err != nil {
		m.t.Fatal(err)
	}
}

// until works until then, and does not look further.
func (m *machine) until(end time.Time) {
	for {
		m.look()
		plan := m.schedule.Plan(m.state, m.clock())
		if plan.Due(m.clock()) {
			m.backup(plan)
			continue
		}
		begins := m.now.Add(plan.At.Sub(m.clock()))
		if !begins.Before(end) {
			if m.now.Before(end) {
				m.now = end
			}
			m.look()
			return
		}
		m.now = begins
	}
}

const runTakes = 10 * time.Minute

func (m *machine) backup(plan backup.Plan) {
	began := m.clock()
	m.runs++
	id := fmt.Sprint(m.runs) // times come twice
	m.state.Begin(plan.Run, began)
	m.now = m.now.Add(runTakes)
	m.look()
	if m.failing[m.now.Format(time.DateOnly)] {
		if m.random.IntN(4) == 0 { // it is there, and does not verify
			m.kept = append(m.kept, backup.Kept{ID: id, Created: began, Bytes: 1})
		}
		m.state.Failed(m.clock())
		return
	}
	bytes := int64(1000)
	const day = 24 * time.Hour
	looked := !m.asked.IsZero() && m.wrong == 0 && m.now.Sub(m.asked) > 3*day
	if looked { // somebody did, and finds what there is right
		m.state.Smaller, m.alarmed, m.asked = m.clock(), nil, time.Time{}
	}
	if m.shrunk = !looked && m.now.Sub(m.small) > 30*day && m.random.IntN(50) == 0; m.shrunk {
		bytes, m.small, m.alarmed = 400, m.now, nil
		for _, k := range m.kept {
			if m.wrong == 0 && isVerified(k) && k.Bytes > 2*bytes && !k.Created.After(began) {
				m.alarmed = append(m.alarmed, k.ID)
			}
		}
	}
	m.kept = append(m.kept, backup.Kept{ID: id, Created: began, Verified: m.clock(), Bytes: bytes})
	m.verified++
	m.prune()
	m.state.Good(plan.Run, m.clock())
	m.count(plan)
}

// count checks that the run was the one to make.
func (m *machine) count(plan backup.Plan) {
	if m.wrong != 0 {
		return
	}
	m.made[plan.Run.UTC()]++
	if n := m.made[plan.Run.UTC()]; n != 1 {
		m.t.Fatalf("%s: the run of %s is made %d times", m.now, plan.Run, n)
	}
	if plan.Run.After(m.now) || m.schedule.Next(plan.Run).Before(m.now.Add(-runTakes)) {
		m.t.Fatalf("%s: the run of %s is made, which is not the newest", m.now, plan.Run)
	}
	if slices.ContainsFunc(m.missed, plan.Run.Equal) {
		m.caught++
	}
}

func (m *machine) prune() {
	p := m.policy
	p.Seen, p.Accepted, p.Smaller = m.state.LastSeen, m.state.Accepted, m.state.Smaller
	ds, err := backup.Decide(m.kept, p, m.clock())
	if err != nil {
		m.refused++
		if strings.Contains(err.Error(), "less than half") && m.asked.IsZero() {
			m.asked = m.now
		}
	}
	keep := make(map[string]bool)
	for _, d := range ds {
		keep[d.ID] = d.Keep
	}
	left := only(m.kept, func(k backup.Kept) bool { return keep[k.ID] })
	gone := len(m.kept) - len(left)
	m.kept = left
	m.pruned += gone
	switch good := len(only(m.kept, isVerified)); {
	case good < min(p.Last, m.verified):
		m.t.Fatalf("%s: %d verified backups are left of %d made", m.now, good, m.verified)
	case gone > 0 && m.latest.After(m.clock().Add(backup.DefaultTolerance)):
		m.t.Fatalf("%s: %d backups are removed though the clock has shown %s and shows %s", m.now, gone, m.latest, m.clock())
	case gone > 0 && m.shrunk:
		m.t.Fatalf("%s: %d backups are removed by a small one", m.now, gone)
	case m.wrong == 0 && slices.ContainsFunc(m.alarmed, func(id string) bool { return !keep[id] }):
		m.t.Fatalf("%s: of %v some are removed though the next has shrunk", m.now, m.alarmed)
	}
}

// disturb does something to the machine.
func (m *machine) disturb() {
	const day = 24 * time.Hour
	switch m.random.IntN(5) {
	case 0: // asleep or off, for hours or days
		asleep := m.now
		m.now = m.now.Add(m.between(time.Hour, 5*day))
		if m.random.IntN(2) == 0 {
			m.restart()
		}
		for r := m.schedule.Next(asleep); !r.After(m.now); r = m.schedule.Next(r) {
			m.missed = append(m.missed, r.UTC())
		}
		m.awake = m.now
		m.look()
		if newest := m.schedule.Last(m.now); newest.After(asleep) && newest.After(m.state.LastGood) {
			if p := m.schedule.Plan(m.state, m.clock()); !p.Run.Equal(newest) || !p.Due(m.clock()) {
				m.t.Fatalf("%s: the run of %s is not made up for, asleep since %s: %+v", m.now, newest, asleep, p)
			}
		}
	case 1: // nights that fail
		for i := range 1 + m.random.IntN(10) {
			m.failing[m.now.Add(time.Duration(i)*day).Format(time.DateOnly)] = true
		}
	case 2: // a clock that drifts is put right
		m.set(m.between(-5*time.Minute, 5*time.Minute), m.between(time.Hour, 3*day))
	case 3: // hours or days ahead or back
		m.set(m.between(-4*day, 4*day), m.between(time.Minute, 3*day))
	case 4: // years ahead
		m.set(m.between(300*day, 3000*day), m.between(time.Minute, 3*day))
	}
}

// set makes the clock wrong for a while.
func (m *machine) set(wrong, lasts time.Duration) {
	m.wrong, m.right = wrong, m.now.Add(lasts)
	m.look()
}

// live runs the machine up to the end.
func (m *machine) live(end time.Time) {
	m.awake, m.disturbed = m.now, m.now
	for m.now.Before(end) {
		m.until(m.now.Add(m.between(time.Hour, 14*24*time.Hour)))
		m.calm()
		m.disturb()
		if m.right.IsZero() {
			continue
		}
		m.until(m.right)
		m.wrong, m.right = 0, time.Time{}
		m.disturbed = m.now
		m.look()
		if m.latest.After(m.now.Add(backup.DefaultTolerance)) {
			m.until(m.now.Add(m.between(time.Hour, 10*24*time.Hour)))
			m.state.Accept(m.clock())
			m.latest = m.clock()
		}
	}
}

// calm checks the time that the machine has been awake with a right clock: each
// run of it was made, unless that night failed.
func (m *machine) calm() {
	from := m.awake
	if m.disturbed.After(from) {
		from = m.disturbed
	}
	// The first run after a change may be one that was made just before.
	from = m.schedule.Next(from)
	for r := m.schedule.Next(from); r.Before(m.now.Add(-runTakes)); r = m.schedule.Next(r) {
		if m.made[r.UTC()] == 0 && !m.failing[r.UTC().Format(time.DateOnly)] {
			m.t.Fatalf("%s: there was no run at %s, awake and right since %s", m.now, r, from)
		}
	}
	if n := len(only(m.kept, func(k backup.Kept) bool { return isVerified(k) && !k.Created.After(m.now) })); m.pruned > 0 && n > 40+m.policy.Last {
		m.t.Fatalf("%s: %d verified backups have piled up", m.now, n)
	}
}

func TestTenYearsOfNights(t *testing.T) {
	t.Parallel()
	const seed = 1
	for i, zone := range []string{
		"Pacific/Apia", "Australia/Lord_Howe", "Pacific/Chatham", "America/Santiago", "Asia/Kathmandu", "Europe/Berlin",
	} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			s := schedule(t, backup.Timing{At: []string{"03:30", "02:15", "00:10"}[i%3], Zone: zone, Store: zone})
			m := &machine{
				t: t, random: rand.New(rand.NewPCG(uint64(i), seed)), schedule: s, policy: backup.Policy{Last: 7, Zone: s.Zone()},
				now: at("2007-01-01"), made: make(map[time.Time]int), failing: make(map[string]bool),
			}
			m.live(at("2017-01-01"))
			days := int(at("2017-01-01").Sub(at("2007-01-01")).Hours() / 24)
			t.Logf("%d of %d nights, %d of %d missed ones made up for, %d removed, %d refusals", len(m.made), days, m.caught, len(m.missed), m.pruned, m.refused)
			if len(m.made) > days || len(m.made) < days/2 || m.caught == 0 || m.pruned < days/4 || m.refused == 0 {
				t.Error("that is not what ten such years bring")
			}
		})
	}
}

func TestTenCalmYearsHaveOneRunADay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone string
		days int // fewer where one was skipped
	}{
		{"Pacific/Apia", 3652},
		{"Australia/Lord_Howe", 3653},
		{"Europe/Berlin", 3653},
	} {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			s := schedule(t, backup.Timing{At: "02:15", Zone: c.zone})
			seen := make(map[string]bool)
			local := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, s.Zone()) }
			for r := s.Next(local(2007)); r.Before(local(2017)); r = s.Next(r) {
				day := r.Format(time.DateOnly)
				if seen[day] {
					t.Fatalf("%s has two runs", day)
				}
				seen[day] = true
			}
			if len(seen) != c.days {
				t.Errorf("%d days have a run, want %d", len(seen), c.days)
			}
		})
	}
}
