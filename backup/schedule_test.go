package backup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
)

func schedule(tb testing.TB, timing backup.Timing) *backup.Schedule {
	tb.Helper()
	s, err := backup.ParseSchedule(timing)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// runs lists the runs from one local time up to another, as local times.
func runs(tb testing.TB, s *backup.Schedule, from, to string) (out []string) {
	tb.Helper()
	read := func(text string) time.Time {
		t, err := time.ParseInLocation("2006-01-02 15:04", text, s.Zone())
		if err != nil {
			tb.Fatal(err)
		}
		return t
	}
	for t := s.Next(read(from).Add(-1)); !t.After(read(to)) && len(out) < 1000; t = s.Next(t) {
		out = append(out, t.Format("2006-01-02 15:04 -0700"))
	}
	return out
}

func TestRunsGoByTheClocksOfTheZone(t *testing.T) {
	for _, c := range []struct {
		why      string
		timing   backup.Timing
		from, to string
		want     []string
	}{
		{
			"daily is 03:30",
			backup.Timing{Zone: "UTC"},
			"2026-03-01 00:00", "2026-03-03 00:00",
			[]string{"2026-03-01 03:30 +0000", "2026-03-02 03:30 +0000"},
		},
		{
			"weekly is on Sunday",
			backup.Timing{Interval: "weekly", Zone: "UTC"},
			"2026-03-01 12:00", "2026-03-20 00:00",
			[]string{"2026-03-08 03:30 +0000", "2026-03-15 03:30 +0000"},
		},
		{
			"hourly is on the hour of the place",
			backup.Timing{Interval: "hourly", Zone: "Asia/Kathmandu"},
			"2026-03-01 00:01", "2026-03-01 02:00",
			[]string{"2026-03-01 01:00 +0545", "2026-03-01 02:00 +0545"},
		},
		{
			"a skipped time is the first instant after",
			backup.Timing{At: "02:30", Zone: "Europe/Berlin"},
			"2026-03-28 00:00", "2026-03-31 00:00",
			[]string{"2026-03-28 02:30 +0100", "2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200"},
		},
		{
			"a time that comes twice runs the first time",
			backup.Timing{At: "02:30", Zone: "Europe/Berlin"},
			"2026-10-24 12:00", "2026-10-26 12:00",
			[]string{"2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"},
		},
		{
			"the end of a gap is no skipped time",
			backup.Timing{At: "03:00", Zone: "Europe/Berlin"},
			"2026-03-29 00:00", "2026-03-29 12:00",
			[]string{"2026-03-29 03:00 +0200"},
		},
		{
			"half an hour is skipped",
			backup.Timing{At: "02:15", Zone: "Australia/Lord_Howe"},
			"2026-10-03 12:00", "2026-10-05 12:00",
			[]string{"2026-10-04 02:30 +1100", "2026-10-05 02:15 +1100"},
		},
		{
			"half an hour comes twice",
			backup.Timing{At: "01:45", Zone: "Australia/Lord_Howe"},
			"2026-04-04 12:00", "2026-04-06 12:00",
			[]string{"2026-04-05 01:45 +1100", "2026-04-06 01:45 +1030"},
		},
		{
			"a day without midnight",
			backup.Timing{At: "00:00", Zone: "America/Santiago"},
			"2026-09-05 12:00", "2026-09-07 12:00",
			[]string{"2026-09-06 01:00 -0300", "2026-09-07 00:00 -0300"},
		},
		{
			"a midnight that comes twice",
			backup.Timing{At: "23:30", Zone: "America/Santiago"},
			"2026-04-03 12:00", "2026-04-05 23:59",
			[]string{"2026-04-03 23:30 -0300", "2026-04-04 23:30 -0300", "2026-04-05 23:30 -0400"},
		},
		{
			"the evening that is skipped ends at midnight",
			backup.Timing{At: "23:30", Zone: "America/Nuuk"},
			"2026-03-27 12:00", "2026-03-30 12:00",
			[]string{"2026-03-27 23:30 -0200", "2026-03-29 00:00 -0100", "2026-03-29 23:30 -0100"},
		},
		{
			"a skipped day has no run",
			backup.Timing{Zone: "Pacific/Apia"},
			"2011-12-29 00:00", "2012-01-01 00:00",
			[]string{"2011-12-29 03:30 -1000", "2011-12-31 03:30 +1400"},
		},
		{
			"the last day of a leap year that only a rule describes",
			backup.Timing{Zone: "Europe/Berlin"},
			"2040-12-30 00:00", "2041-01-01 12:00",
			[]string{"2040-12-30 03:30 +0100", "2040-12-31 03:30 +0100", "2041-01-01 03:30 +0100"},
		},
		{
			"clocks are set by a rule for years to come",
			backup.Timing{At: "02:30", Zone: "Europe/Berlin"},
			"2440-03-24 12:00", "2440-03-26 00:00",
			[]string{"2440-03-25 03:00 +0200"},
		},
		{
			"hours that pass twice have two hourly runs",
			backup.Timing{Interval: "hourly", Zone: "America/New_York"},
			"2026-11-01 00:30", "2026-11-01 02:30",
			[]string{"2026-11-01 01:00 -0400", "2026-11-01 01:00 -0500", "2026-11-01 02:00 -0500"},
		},
		{
			"a skipped hour has one run with the next",
			backup.Timing{Interval: "hourly", Zone: "America/New_York"},
			"2026-03-08 00:30", "2026-03-08 04:30",
			[]string{"2026-03-08 01:00 -0500", "2026-03-08 03:00 -0400", "2026-03-08 04:00 -0400"},
		},
		{
			"half-hourly over a midnight that comes twice",
			backup.Timing{Cron: "*/30 * * * *", Zone: "America/Santiago"},
			"2026-04-04 22:45", "2026-04-05 00:30",
			[]string{
				"2026-04-04 23:00 -0300", "2026-04-04 23:30 -0300", "2026-04-04 23:00 -0400", "2026-04-04 23:30 -0400",
				"2026-04-05 00:00 -0400", "2026-04-05 00:30 -0400",
			},
		},
		{
			"weekdays, 7 is Sunday",
			backup.Timing{Cron: "15 4 * * 5-7", Zone: "UTC"},
			"2026-03-02 00:00", "2026-03-09 00:00",
			[]string{"2026-03-06 04:15 +0000", "2026-03-07 04:15 +0000", "2026-03-08 04:15 +0000"},
		},
		{
			"every second weekday up to 7",
			backup.Timing{Cron: "0 0 * * tue-7/2,7", Zone: "UTC"},
			"2026-03-02 01:00", "2026-03-09 01:00",
			[]string{"2026-03-03 00:00 +0000", "2026-03-05 00:00 +0000", "2026-03-07 00:00 +0000", "2026-03-08 00:00 +0000"},
		},
		{
			"a day and a weekday mean either",
			backup.Timing{Cron: "0 0 4 * mon", Zone: "UTC"},
			"2026-03-01 01:00", "2026-03-10 01:00",
			[]string{"2026-03-02 00:00 +0000", "2026-03-04 00:00 +0000", "2026-03-09 00:00 +0000"},
		},
		{
			"leap days, eight years apart",
			backup.Timing{Cron: "0 0 29 2 *", Zone: "UTC"},
			"2096-02-01 00:00", "2105-01-01 00:00",
			[]string{"2096-02-29 00:00 +0000", "2104-02-29 00:00 +0000"},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := schedule(t, c.timing)
			got := runs(t, s, c.from, c.to)
			if !slices.Equal(got, c.want) {
				t.Fatalf("runs at\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			for i, text := range got {
				run, err := time.Parse("2006-01-02 15:04 -0700", text)
				if err != nil {
					t.Fatal(err)
				}
				if !s.Last(run).Equal(run) || !s.Last(run.Add(time.Second)).Equal(run) {
					t.Errorf("the last run at %s is %s", text, s.Last(run))
				}
				if before := s.Last(run.Add(-1)); i > 0 && before.Format("2006-01-02 15:04 -0700") != got[i-1] {
					t.Errorf("the last run before %s is %s", text, before)
				}
			}
		})
	}
}

func TestTimingsThatCanNotBeAreRefused(t *testing.T) {
	for _, c := range []struct {
		timing backup.Timing
		text   string
	}{
		{backup.Timing{Interval: "dayly"}, `"dayly" is no interval`},
		{backup.Timing{At: "25:00"}, `"25:00" is no time of day`},
		{backup.Timing{Interval: "hourly", At: "03:30"}, "no meaning"},
		{backup.Timing{Cron: "0 3 * * *", At: "03:30"}, "contradicts"},
		{backup.Timing{Cron: "0 3 * *"}, "4 fields"},
		{backup.Timing{Cron: "TZ=UTC 0 3 * * *"}, "6 fields"},
		{backup.Timing{Cron: "@daily"}, "1 fields"},
		{backup.Timing{Cron: "0 0 30 2 *"}, "no such day"},
		{backup.Timing{Cron: "61 0 * * *"}, "61"},
		{backup.Timing{Cron: "0 0 * * 5-8"}, "8"},
		{backup.Timing{Cron: ", 0 * * *"}, "comma"},
		{backup.Timing{Cron: "0 0 * * 1-7/0"}, "1-7/0"},
		{backup.Timing{Zone: "Europe/Nowhere"}, "Europe/Nowhere"},
	} {
		_, err := backup.ParseSchedule(c.timing)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v, want an error with %q", c.timing, err, c.text)
		}
	}
}

func TestEachStoreIsAlwaysEquallyLate(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for i := range 100 {
		timing := backup.Timing{Zone: "UTC", Store: fmt.Sprint("store-", i)}
		s := schedule(t, timing)
		late := s.Jitter()
		if late < 0 || late >= backup.DefaultJitter || late != schedule(t, timing).Jitter() {
			t.Fatalf("%s is %v late", timing.Store, late)
		}
		seen[late] = true
		if got, want := s.Next(at("2026-03-01")), at("2026-03-01 03:30").Add(late); !got.Equal(want) || !s.Last(want).Equal(want) {
			t.Fatalf("runs at %s, want %s", got, want)
		}
	}
	if len(seen) < 80 {
		t.Errorf("a hundred stores begin at %d different times", len(seen))
	}
	for _, timing := range []backup.Timing{
		{},
		{Store: "s", Jitter: -1},
		{Store: "s", Interval: "hourly"},
		{Store: "s", Cron: "0 3 * * *"},
	} {
		if late := schedule(t, timing).Jitter(); late != 0 {
			t.Errorf("%+v is %v late", timing, late)
		}
	}
}

func TestTheNewestMissedRunStandsForAll(t *testing.T) {
	s := schedule(t, backup.Timing{Zone: "UTC"})
	for _, c := range []struct {
		last, now, want string
	}{
		{"2026-03-01 03:30", "2026-03-02 03:29", ""},
		{"2026-03-01 03:30", "2026-03-02 03:30", "2026-03-02 03:30"},
		{"2026-03-01 03:31", "2026-03-04 12:00", "2026-03-04 03:30"},
		{"2016-03-01 03:31", "2026-03-04 12:00", "2026-03-04 03:30"},
		{"2036-03-01 03:31", "2026-03-04 12:00", ""},
	} {
		run, ok := s.Missed(at(c.last), at(c.now))
		if ok != (c.want != "") || ok && !run.Equal(at(c.want)) {
			t.Errorf("after %s, %s misses %s %v, want %q", c.last, c.now, run, ok, c.want)
		}
	}
}

func zones() []string {
	return []string{
		"UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu",
		"America/Nuuk", "Pacific/Chatham", "Africa/Casablanca", "Antarctica/Troll", "America/St_Johns", "Africa/Monrovia",
	}
}

// Next and Last are compared with every minute of some days: the runs are the
// minutes whose local time fits and was not there before.
func TestEveryMinuteIsARunOrIsNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute, hour := rapid.IntRange(0, 59).Draw(t, "minute"), rapid.IntRange(0, 23).Draw(t, "hour")
		text, hourly := fmt.Sprintf("%d %d * * *", minute, hour), rapid.Bool().Draw(t, "hourly")
		if hourly {
			text = fmt.Sprintf("%d * * * *", minute)
		}
		timing := backup.Timing{Cron: text, Zone: rapid.SampledFrom(zones()).Draw(t, "zone")}
		s, err := backup.ParseSchedule(timing)
		if err != nil {
			t.Fatal(err)
		}
		start := at("2009-12-20").AddDate(0, 0, rapid.IntRange(0, 40*365).Draw(t, "day"))
		if start = start.In(s.Zone()); rapid.Bool().Draw(t, "at a change of clocks") {
			if _, end := start.ZoneBounds(); !end.IsZero() {
				start = end.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
			}
		}
		var want, got []time.Time
		days := make(map[string]bool)
		for m := start.Add(-48 * time.Hour); m.Before(start.Add(72 * time.Hour)); m = m.Add(time.Minute) {
			local, before := m.In(s.Zone()), m.Add(-time.Minute).In(s.Zone())
			fits := local.Minute() == minute && (hourly || local.Hour() == hour)
			// Walk what the clocks skipped, minute by minute.
			wall := func(t time.Time) time.Time {
				return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
			}
			if gap := wall(local).Sub(wall(before)); gap > time.Minute && gap < 12*time.Hour {
				for w := wall(before).Add(time.Minute); w.Before(wall(local)); w = w.Add(time.Minute) {
					fits = fits || w.Minute() == minute && (hourly || w.Hour() == hour)
				}
			}
			if !fits {
				continue
			}
			day := local.Format("2006-01-02 15")
			if hourly {
				day = m.String()
			}
			if !days[day] && !m.Before(start) {
				want = append(want, m)
			}
			days[day] = true
		}
		for r := s.Next(start.Add(-1)); r.Before(start.Add(72 * time.Hour)); r = s.Next(r) {
			if last := s.Last(r); !last.Equal(r) {
				t.Fatalf("the last run at %s is %s", r, last)
			}
			got = append(got, r)
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%+v from %s: runs at %v, want %v", timing, start, got, want)
		}
	})
}

// What the configuration accepts can be scheduled.
func TestEveryAcceptedExpressionIsUnderstood(t *testing.T) {
	understood := 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join([]string{
			rapid.StringMatching(`([0-9]{1,2}|\*)(-[0-9]{1,2})?(/[0-9]{1,2})?(,[0-9]{1,2})?`).Draw(t, "minute"),
			rapid.StringMatching(`([0-9]{1,2}|\*)(-[0-9]{1,2})?(/[0-9]{1,2})?`).Draw(t, "hour"),
			"*",
			rapid.StringMatching(`([0-9]{1,2}|\*|jan|Feb)(-[0-9]{1,2}|-DEC)?`).Draw(t, "month"),
			rapid.StringMatching(`([0-9]|\*|sun|Tue)(-[0-9]|-SAT)?(/[0-9])?(,[0-9])?`).Draw(t, "weekday"),
		}, " ")
		accepted := (&config.Config{Backup: config.Backup{Enabled: true, Cron: text}}).Check() == nil
		_, err := backup.ParseSchedule(backup.Timing{Cron: text})
		if accepted && err != nil {
			t.Fatalf("%q is accepted by the configuration: %v", text, err)
		}
		if accepted {
			understood++
		}
	})
	if understood == 0 {
		t.Error("no expression was accepted")
	}
}

func ExampleParseSchedule() {
	s, err := backup.ParseSchedule(backup.Timing{At: "02:30", Zone: "Europe/Paris"})
	if err != nil {
		fmt.Println(err)
		return
	}
	t := time.Date(2026, 3, 28, 0, 0, 0, 0, s.Zone())
	for range 3 {
		t = s.Next(t)
		fmt.Println(t.Format("Mon 2 Jan 15:04"))
	}
	// Output:
	// Sat 28 Mar 02:30
	// Sun 29 Mar 03:00
	// Mon 30 Mar 02:30
}
