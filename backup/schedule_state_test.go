package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

func TestPlans(t *testing.T) {
	daily := backup.Timing{Zone: "UTC"}
	good := func(text string) backup.State { return backup.State{LastGood: at(text)} }
	tried := func(last, run, ended string, tries int) backup.State {
		return backup.State{LastGood: at(last), Run: at(run), LastRun: at(ended), Tries: tries}
	}
	for _, c := range []struct {
		why     string
		timing  backup.Timing
		state   backup.State
		now     string
		run, at string
		try     int
	}{
		{"a new store waits for its first run", daily, backup.State{}, "2026-03-10 12:00", "2026-03-11 03:30", "2026-03-11 03:30", 1},
		{"a new store that was off makes up for it", daily, backup.State{Since: at("2026-03-08 12:00")}, "2026-03-10 12:00", "2026-03-10 03:30", "2026-03-10 12:00", 1},
		{"what was made today is next tomorrow", daily, good("2026-03-10 03:31"), "2026-03-10 12:00", "2026-03-11 03:30", "2026-03-11 03:30", 1},
		{"three days off are made up for once", daily, good("2026-03-07 03:31"), "2026-03-10 12:00", "2026-03-10 03:30", "2026-03-10 12:00", 1},
		{"a failure is tried again a minute later", daily, tried("2026-03-09 03:31", "2026-03-10 03:30", "2026-03-10 03:40", 1), "2026-03-10 03:40", "2026-03-10 03:30", "2026-03-10 03:41", 2},
		{"further ones double it", daily, tried("2026-03-09 03:31", "2026-03-10 03:30", "2026-03-10 03:40", 5), "2026-03-10 03:40", "2026-03-10 03:30", "2026-03-10 03:56", 6},
		{"a retry whose time has passed begins", daily, tried("2026-03-09 03:31", "2026-03-10 03:30", "2026-03-10 03:40", 5), "2026-03-10 12:00", "2026-03-10 03:30", "2026-03-10 12:00", 6},
		{"the next run ends the retries", daily, tried("2026-03-09 03:31", "2026-03-10 03:30", "2026-03-10 20:40", 11), "2026-03-10 21:00", "2026-03-11 03:30", "2026-03-11 03:30", 1},
		{"any number of failures does", daily, tried("2026-03-09 03:31", "2026-03-10 03:30", "2026-03-10 20:40", 1<<40), "2026-03-10 21:00", "2026-03-11 03:30", "2026-03-11 03:30", 1},
		{"a new run has a first try", daily, tried("2026-03-09 03:31", "2026-03-10 03:30", "2026-03-10 20:40", 11), "2026-03-11 03:31", "2026-03-11 03:30", "2026-03-11 03:31", 1},
		{"a clock set back by an hour makes no run twice", daily, good("2026-03-10 03:31"), "2026-03-10 02:31", "2026-03-11 03:30", "2026-03-11 03:30", 1},
		{"a clock that was ahead by years delays nothing", daily, good("2036-03-10 03:31"), "2026-03-10 02:31", "2026-03-10 03:30", "2026-03-10 03:30", 1},
		{"nor where it was noticed days ago", daily, backup.State{LastGood: at("2036-03-10 03:31"), Since: at("2026-03-08 12:00")}, "2026-03-10 02:31", "2026-03-09 03:30", "2026-03-10 02:31", 1},
		{"an end of an attempt in the future waits for the next run", daily, tried("2026-03-09 03:31", "2026-03-10 03:30", "2036-03-10 03:40", 1), "2026-03-10 04:00", "2026-03-11 03:30", "2026-03-11 03:30", 1},
		{
			"a run made before a clock was back for a while is made", daily,
			backup.State{LastGood: at("2026-03-08 03:31"), Ahead: at("2026-03-10 03:31")},
			"2026-03-10 06:00", "2026-03-11 03:30", "2026-03-11 03:30", 1,
		},
		{
			"what was made when the clock was ahead by years is no reason to wait", daily,
			backup.State{LastGood: at("2026-03-09 03:31"), Ahead: at("2036-03-10 03:31")},
			"2026-03-10 06:00", "2026-03-10 03:30", "2026-03-10 06:00", 1,
		},
		{"hourly: half an hour back", backup.Timing{Interval: "hourly", Zone: "UTC"}, good("2026-03-10 03:01"), "2026-03-10 02:40", "2026-03-10 04:00", "2026-03-10 04:00", 1},
		{"hourly: more than half an hour back", backup.Timing{Interval: "hourly", Zone: "UTC"}, good("2026-03-10 03:31"), "2026-03-10 02:40", "2026-03-10 03:00", "2026-03-10 03:00", 1},
	} {
		t.Run(c.why, func(t *testing.T) {
			s, now := schedule(t, c.timing), at(c.now)
			p := s.Plan(c.state, now)
			if !p.Run.Equal(at(c.run)) || !p.At.Equal(at(c.at)) || p.Try != c.try || p.Due(now) != !at(c.at).After(now) {
				t.Errorf("run %s at %s, try %d; want %s at %s, try %d", p.Run, p.At, p.Try, c.run, c.at, c.try)
			}
			if again := s.Plan(s.Observe(c.state, now), now); !again.Run.Equal(p.Run) || !again.At.Equal(p.At) || again.Try != p.Try {
				t.Errorf("looking at the clock changes %v to %v", p, again)
			}
		})
	}
}

func TestARunThatEndsBeforeItBeganIsMade(t *testing.T) {
	s := schedule(t, backup.Timing{Zone: "UTC"})
	var st backup.State
	st.Begin(at("2026-03-10 03:30"), at("2026-03-10 03:30"))
	st.Good(at("2026-03-10 03:30"), at("2026-03-10 03:25"))
	if p := s.Plan(st, at("2026-03-10 03:30")); p.Due(at("2026-03-10 03:30")) {
		t.Errorf("it is due again: %+v", p)
	}
}

func TestWhatWasMadeByAWrongClockDoesNotCountOnceTheClockIsAccepted(t *testing.T) {
	for _, c := range []struct {
		why      string
		accepted bool
		due      bool
	}{
		{"it counts while the clock may be wrong now", false, false},
		{"it does not count any more", true, true},
	} {
		s := schedule(t, backup.Timing{Zone: "UTC"})
		for _, early := range []bool{true, false} { // accepted before the next backup, or after it
			var st backup.State
			st.Good(at("2026-03-20 03:30"), at("2026-03-20 03:31"))
			if c.accepted && early {
				st.Accept(at("2026-03-10 04:00"))
			}
			st.Good(at("2026-03-11 03:30"), at("2026-03-11 03:31"))
			if c.accepted && !early {
				st.Accept(at("2026-03-11 04:00"))
			}
			now := at("2026-03-20 04:00")
			if p := s.Plan(s.Observe(st, now), now); p.Due(now) != c.due {
				t.Errorf("%s, early %v: %+v", c.why, early, p)
			}
		}
	}
}

func TestTheLatestTimeSeenStaysUntilTheClockIsAccepted(t *testing.T) {
	s := schedule(t, backup.Timing{Zone: "UTC"})
	st := s.Observe(backup.State{}, at("2036-03-10"))
	st = s.Observe(st, at("2026-03-10"))
	st.Failed(at("2026-03-10 03:30"))
	st.Good(at("2026-03-10 03:30"), at("2026-03-10 03:31"))
	if !st.LastSeen.Equal(at("2036-03-10")) {
		t.Errorf("the latest time seen is %s", st.LastSeen)
	}
	st.Accept(at("2026-03-10 04:00"))
	if st = s.Observe(st, at("2026-03-10 05:00")); !st.LastSeen.Equal(at("2026-03-10 05:00")) || !st.Accepted.Equal(at("2026-03-10 04:00")) {
		t.Errorf("an accepted clock left %+v", st)
	}
}

// Whatever the state, something is planned, never before now and never later than
// the run after the next.
func TestSomethingIsAlwaysPlanned(t *testing.T) {
	s := schedule(t, backup.Timing{At: "02:30", Zone: "Europe/Berlin"})
	rapid.Check(t, func(t *rapid.T) {
		now := at("2026-03-20").Add(time.Duration(rapid.IntRange(0, 400*24*60).Draw(t, "now")) * time.Minute)
		near := func(label string) time.Time {
			if rapid.IntRange(0, 4).Draw(t, label+" set") == 0 {
				return time.Time{}
			}
			unit := rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}).Draw(t, label+" unit")
			return now.Add(time.Duration(rapid.IntRange(-30, 30).Draw(t, label)) * unit)
		}
		st := backup.State{
			LastGood: near("good"), LastRun: near("run"), Since: near("since"), Ahead: near("ahead"), LastSeen: near("seen"),
			Tries: rapid.IntRange(0, 70).Draw(t, "tries"),
		}
		st.Run = s.Last(now)
		p := s.Plan(st, now)
		if p.At.Before(now) || p.At.Before(p.Run) || p.Try < 1 {
			t.Fatalf("%+v at %s: %+v", st, now, p)
		}
		if latest := s.Next(s.Next(now)); p.At.After(latest) {
			t.Fatalf("%+v at %s: %+v, later than %s", st, now, p, latest)
		}
	})
}

func TestAStateIsWhatWasSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "schedule.json")
	store := backup.StateFile(path)
	ctx := t.Context()
	if st, err := store.Load(ctx); err != nil || st != (backup.State{}) {
		t.Fatalf("before the first save: %+v, %v", st, err)
	}
	for _, want := range []backup.State{
		{},
		{LastRun: at("2026-03-01"), LastGood: at("2026-03-02"), LastSeen: at("2026-03-03"), Accepted: at("2026-03-04"), Since: at("2026-03-05"), Ahead: at("2026-03-07"), Run: at("2026-03-06"), Tries: 7},
		{LastSeen: at("2026-03-03")},
	} {
		if err := store.Save(ctx, want); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Load(ctx); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("loads %+v, %v, want %+v", got, err, want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Fatalf("beside the file: %v, %v", entries, err)
	}
	file, err := os.Stat(path)
	if err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", file.Mode(), err)
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("its directory has mode %v, %v", dir.Mode(), err)
	}
}

func TestWhatIsNoStateIsCorruptAndCanBeReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schedule.json")
	store := backup.StateFile(path)
	for _, text := range []string{"", "{", "null", "[]", "{} {}", `{"tries": -1}`, `{"last_good": "yesterday"}`, "{" + string(make([]byte, 1<<20))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Load(t.Context()); !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%.20q: %v, want a corrupt one", text, err)
		}
	}
	// A save that was interrupted leaves the old file and one beside.
	if err := os.WriteFile(path+".new", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), backup.State{Tries: 1}); err != nil {
		t.Fatal(err)
	}
	if st, err := store.Load(t.Context()); err != nil || st.Tries != 1 {
		t.Errorf("after a save: %+v, %v", st, err)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"last_good": "2026-03-01T03:30:00Z", "tries": 3, "run": "2026-03-02T03:30:00+01:00"}`))
	path := filepath.Join(f.TempDir(), "schedule.json")
	store := backup.StateFile(path)
	s := schedule(f, backup.Timing{Zone: "UTC"})
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := store.Load(t.Context())
		if err != nil {
			if !errors.Is(err, tiers.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		now := at("2026-03-01")
		if p := s.Plan(s.Observe(st, now), now); p.At.Before(now) || p.At.After(now.AddDate(0, 0, 2)) {
			t.Fatalf("%+v plans %+v", st, p)
		}
	})
}
