package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTableOfTokensFitsTheTerminal(t *testing.T) {
	rows := []tokenRow{
		{Name: "a-session-with-a-very-long-name-é", Input: 1_234_567, Total: 1_234_567, Count: 3},
		{Name: "2026-01-01", Input: 7, Total: 7, Count: 1},
	}
	total := tokenRow{Name: "total", Input: 1_234_574, Total: 1_234_574, Count: 4}
	for _, by := range []string{"day", "session"} {
		bars := 0
		for width := 24; width < 160; width++ {
			text := tokenTable(by, rows, total, width)
			if !strings.Contains(text, "1,234,574") {
				t.Errorf("at %d the total is cut:\n%s", width, text)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("at %d a line has %d characters: %q", width, n, line)
				}
				if strings.Contains(line, "####") {
					bars++
				}
			}
		}
		if by == "day" && bars < 30 || by != "day" && bars > 0 {
			t.Errorf("by %s there are %d bars", by, bars)
		}
	}
}

func TestNumbersAreGroupedByThree(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
