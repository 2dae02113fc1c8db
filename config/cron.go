package config

import (
	"fmt"
	"strconv"
	"strings"
)

// checkCron answers what is wrong with a cron expression of five fields.
func checkCron(text string) (problem string) {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return fmt.Sprintf("%q has %d fields: write five, minute hour day month weekday, such as \"30 3 * * *\"", text, len(fields))
	}
	for i, limits := range []struct {
		name      string
		low, high int
		words     string
	}{
		{"minute", 0, 59, ""},
		{"hour", 0, 23, ""},
		{"day", 1, 31, ""},
		{"month", 1, 12, monthWords},
		{"weekday", 0, 7, "sun mon tue wed thu fri sat"},
	} {
		for part := range strings.SplitSeq(fields[i], ",") {
			if !cronPart(part, limits.low, limits.high, strings.Fields(limits.words)) {
				return fmt.Sprintf("%q: the %s %q is not %d to %d, *, a range or a step", text, limits.name, fields[i], limits.low, limits.high)
			}
		}
	}
	return checkCronDay(text)
}

func cronPart(part string, low, high int, words []string) bool {
	span, step, stepped := strings.Cut(part, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || n > high) {
		return false
	}
	if span == "*" {
		return true
	}
	from, to, ranged := strings.Cut(span, "-")
	a, ok := cronNumber(from, low, high, words)
	if !ok || !ranged {
		return ok
	}
	b, ok := cronNumber(to, low, high, words)
	return ok && a <= b
}

func cronNumber(text string, low, high int, words []string) (n int, ok bool) {
	for i, w := range words {
		if strings.EqualFold(text, w) {
			return low + i, true
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= low && n <= high
}
