package backup

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// longest is the number of days within which each schedule has a run, unless
// it never has: the 29th of February stays away for eight years around 2100.
const longest = 8*366 + 2

// fields are the five of a cron expression as sets of bits. The library parses
// them and no more: its own search for the next time skips what clocks skip.
type fields struct {
	minutes, hours, days, months, weekdays uint64
}

// star marks a field that was written as "*".
const star = 1 << 63

func parseCron(text string) (fields, error) {
	parts := strings.Fields(text)
	if len(parts) != 5 {
		return fields{}, fmt.Errorf("%q has %d fields, not the five minute hour day month weekday", text, len(parts))
	}
	for _, part := range parts {
		for one := range strings.SplitSeq(part, ",") {
			if one == "" {
				return fields{}, fmt.Errorf("%q: a comma has nothing beside it", text)
			}
		}
	}
	parts[4] = sundays(parts[4])
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(strings.Join(parts, " "))
	if err != nil {
		return fields{}, fmt.Errorf("%q: %w", text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return fields{}, fmt.Errorf("%q names no times of the day", text)
	}
	return fields{spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow}, nil
}

// sundays writes the weekday 7, which the library does not know, as 0.
func sundays(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		span, step, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		switch {
		case span == "7":
			parts[i] = "0"
		case ranged && to == "7":
			parts[i] = upToSunday(part, from, step, stepped)
		}
	}
	return strings.Join(parts, ",")
}

// upToSunday lists the days of a range that ends with 7, or answers part as it
// is, which the library refuses, when it is none.
func upToSunday(part, from, step string, stepped bool) string {
	first, err := weekday(from)
	if err != nil {
		return part
	}
	by := 1
	if stepped {
		if by, err = strconv.Atoi(step); err != nil || by < 1 {
			return part
		}
	}
	var days []string
	for day := first; day <= 7; day += min(by, 8) {
		days = append(days, strconv.Itoa(day%7))
	}
	if len(days) == 0 {
		return part
	}
	return strings.Join(days, ",")
}

func weekday(name string) (int, error) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(name, d.String()[:3]) {
			return int(d), nil
		}
	}
	n, err := strconv.Atoi(name)
	if err == nil && (n < 0 || n > 7) {
		err = strconv.ErrRange
	}
	return n, err
}

// everyHour tells whether the hour does not matter.
func (f fields) everyHour() bool { return f.hours&(1<<24-1) == 1<<24-1 }

// day tells whether there are runs on that day. As ever with cron, a day and a
// weekday that are both given mean either.
func (f fields) day(d date) bool {
	if f.months>>d.month&1 == 0 {
		return false
	}
	inMonth := f.days>>d.day&1 == 1
	inWeek := f.weekdays>>d.utc(0, 0).Weekday()&1 == 1
	if f.days&star != 0 || f.weekdays&star != 0 {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}
