package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// TTL is how long an entry lives: seconds ("3600"), a duration ("90s", "24h",
// "30d", "2w", "1h30m"), [Never] or [UntilSessionEnds]. "" is the default.
type TTL string

// Words for a TTL.
const (
	Never            TTL = "never"
	UntilSessionEnds TTL = "session"
)

// Duration answers the span of time; ok is false for "", never, session and
// for what is not valid.
func (t TTL) Duration() (d time.Duration, ok bool) { return Duration(t).Duration() }

// Duration is a span of time in the grammar of [TTL], without its words. "" is
// the default.
type Duration string

// Duration answers the span of time; ok is false for "" and for what is not
// valid.
func (t Duration) Duration() (d time.Duration, ok bool) {
	d, problem := parseSpan(string(t))
	return d, problem == ""
}

// Size is a number of bytes: "65536", "64KiB", "64MiB", "1GiB", "64MB". "" is
// the default.
type Size string

// Bytes answers the number; ok is false for "" and for what is not valid.
func (s Size) Bytes() (n int64, ok bool) {
	n, problem := parseSize(string(s))
	return n, problem == ""
}

// Retention is how many backups are kept: a number of them, or [Days]. 0 is the
// default.
type Retention int64

// Days keeps backups that are younger than n days, never fewer than one.
func Days(n int) Retention { return Retention(n) << 32 }

// Count answers how many backups are kept; ok is false when it goes by age.
func (r Retention) Count() (n int, ok bool) {
	if r>>32 > 0 {
		return 0, false
	}
	return int(r), true
}

// Age answers how old a backup may get; ok is false when it goes by number.
func (r Retention) Age() (d time.Duration, ok bool) {
	if r>>32 <= 0 {
		return 0, false
	}
	return time.Duration(r>>32) * 24 * time.Hour, true
}

// String is the YAML form: "7" or "7d".
func (r Retention) String() string {
	if r>>32 > 0 {
		return strconv.FormatInt(int64(r>>32), 10) + "d"
	}
	return strconv.FormatInt(int64(r), 10)
}

// MarshalYAML writes the YAML form.
func (r Retention) MarshalYAML() (any, error) { return r.String(), nil }

const maxDays = 36500 // a hundred years

func parseRetention(text string) (r Retention, problem string) {
	number, days := strings.CutSuffix(text, "d")
	n, err := strconv.ParseInt(number, 10, 32)
	switch {
	case err != nil && !strings.HasPrefix(number, "-"):
		return 0, fmt.Sprintf("%q is no retention: write a number of backups (7) or of days (7d)", text)
	case err != nil, n <= 0:
		return 0, fmt.Sprintf("%s would keep no backup: write 1 or more", text)
	case days && n > maxDays:
		return 0, fmt.Sprintf("%s is too long", text)
	case days:
		return Days(int(n)), ""
	}
	return Retention(n), ""
}

const spanForms = "write seconds (3600), 90s, 15m, 24h, 30d, 2w"

// parseSpan answers the span, or what is wrong with the text.
func parseSpan(text string) (d time.Duration, problem string) {
	if text == "" {
		return 0, "is empty: " + spanForms
	}
	if strings.HasPrefix(text, "-") {
		return 0, fmt.Sprintf("%s is negative: %s", text, spanForms)
	}
	rest, last := text, time.Duration(math.MaxInt64)
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		letters := digits + len(rest[digits:]) - len(strings.TrimLeft(rest[digits:], "abcdefghijklmnopqrstuvwxyz"))
		unit, ok := spanUnit(rest[digits:letters])
		if digits == 0 || !ok || unit >= last || (letters == digits && rest != text) {
			return 0, fmt.Sprintf("%q is no duration: %s", text, spanForms)
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil || n > int64((math.MaxInt64-d)/unit) {
			return 0, fmt.Sprintf("%q is too long: more than 290 years", text)
		}
		d += time.Duration(n) * unit
		rest, last = rest[letters:], unit
	}
	if d == 0 {
		return 0, fmt.Sprintf("%q is no time at all: %s", text, spanForms)
	}
	return d, ""
}

func spanUnit(name string) (unit time.Duration, ok bool) {
	switch name {
	case "ms":
		return time.Millisecond, true
	case "", "s":
		return time.Second, true
	case "m":
		return time.Minute, true
	case "h":
		return time.Hour, true
	case "d":
		return 24 * time.Hour, true
	case "w":
		return 7 * 24 * time.Hour, true
	}
	return 0, false
}

// formatSpan writes a span in the largest unit that divides it.
func formatSpan(d time.Duration) string {
	for _, unit := range []string{"d", "h", "m", "s"} {
		if size, _ := spanUnit(unit); d >= size && d%size == 0 {
			return strconv.FormatInt(int64(d/size), 10) + unit
		}
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

// formatSize writes bytes in the largest unit that divides them.
func formatSize(n int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size, _ := sizeUnit(unit); n >= size && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10)
}

const sizeForms = "write bytes (65536) or 64KiB, 64MiB, 1GiB"

// parseSize answers the bytes, or what is wrong with the text.
func parseSize(text string) (n int64, problem string) {
	if text == "" {
		return 0, "is empty: " + sizeForms
	}
	if strings.HasPrefix(text, "-") {
		return 0, fmt.Sprintf("%s is negative: %s", text, sizeForms)
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	unit, ok := sizeUnit(strings.TrimPrefix(text[digits:], " "))
	if digits == 0 || !ok {
		if len(text) == digits+1 && strings.ContainsAny(text[digits:], "kKmMgGtT") {
			return 0, fmt.Sprintf("%q is no size: did you mean %s%siB?", text, text[:digits], strings.ToUpper(text[digits:]))
		}
		return 0, fmt.Sprintf("%q is no size: %s", text, sizeForms)
	}
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Sprintf("%q is too large", text)
	}
	if n == 0 {
		return 0, fmt.Sprintf("%q is nothing: %s", text, sizeForms)
	}
	return n * unit, ""
}

func sizeUnit(name string) (unit int64, ok bool) {
	switch name {
	case "", "B":
		return 1, true
	case "kB", "KB":
		return 1e3, true
	case "MB":
		return 1e6, true
	case "GB":
		return 1e9, true
	case "TB":
		return 1e12, true
	case "KiB":
		return 1 << 10, true
	case "MiB":
		return 1 << 20, true
	case "GiB":
		return 1 << 30, true
	case "TiB":
		return 1 << 40, true
	}
	return 0, false
}
