package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// shownTokens is the JSON shape of token.
type shownTokens struct {
	By    string     `json:"by"`
	Since string     `json:"since,omitempty"`
	Until string     `json:"until,omitempty"`
	Rows  []tokenRow `json:"rows"`
	Total tokenRow   `json:"total"`
}

func (a *app) printTokens(q tokenQuery, rows []tokenRow) error {
	total := tokenRow{Name: "total"}
	for _, r := range rows {
		total.Input, total.Output = total.Input+r.Input, total.Output+r.Output
		total.CacheRead, total.CacheWrite = total.CacheRead+r.CacheRead, total.CacheWrite+r.CacheWrite
		total.Total, total.Count = total.Total+r.Total, total.Count+r.Count
	}
	if a.json {
		out := shownTokens{By: q.by, Rows: rows, Total: total}
		if !q.from.IsZero() {
			out.Since = q.from.Format(time.DateOnly)
		}
		if !q.to.IsZero() {
			out.Until = q.to.Format(time.DateOnly)
		}
		return a.printJSON(out)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.err, "sagestore: no usage is in the ledger")
		return err
	}
	if q.by == "day" {
		rows = everyDay(rows)
	}
	width := a.width()
	if width == 0 {
		width = 120 // where there is no terminal
	}
	_, err := fmt.Fprint(a.out, tokenTable(q.by, rows, total, width))
	return err
}

// mostGap is how many days without use are shown.
const mostGap = 400

// everyDay puts in the days between that have no use, so that bars stand at their
// places in time.
func everyDay(rows []tokenRow) []tokenRow {
	var all []tokenRow
	for i, r := range rows {
		day, err := time.Parse(time.DateOnly, r.Name)
		if i > 0 && err == nil {
			last, err := time.Parse(time.DateOnly, rows[i-1].Name)
			for n := 0; err == nil && n < mostGap; n++ {
				if last = last.AddDate(0, 0, 1); !last.Before(day) {
					break
				}
				all = append(all, tokenRow{Name: last.Format(time.DateOnly)})
			}
		}
		all = append(all, r)
	}
	return all
}

// The bars of a table are left out where there is no room for the shortest.
const (
	shortestBar = 8
	longestBar  = 40
	shortName   = 10
)

// tokenTable lays out the rows so that no line is longer than width: bars are as
// long as there is room for, names are cut, and columns that only say how a total
// is made up are left out, as far as it takes.
func tokenTable(by string, rows []tokenRow, total tokenRow, width int) string {
	type column struct {
		title string
		of    func(tokenRow) int64
	}
	columns := []column{
		{"TOTAL", func(r tokenRow) int64 { return r.Total }},
		{"INPUT", func(r tokenRow) int64 { return r.Input }},
		{"OUTPUT", func(r tokenRow) int64 { return r.Output }},
		{"CACHE READ", func(r tokenRow) int64 { return r.CacheRead }},
		{"CACHE WRITE", func(r tokenRow) int64 { return r.CacheWrite }},
		{"COUNT", func(r tokenRow) int64 { return r.Count }},
	}
	all := append(append([]tokenRow{}, rows...), total)
	name := len(by)
	for _, r := range all {
		name = max(name, utf8.RuneCountInString(tokenName(r.Name)))
	}
	used := func() (n int) { // by columns, with two spaces before each
		for _, c := range columns {
			n += 2 + wide(c.title, all, c.of)
		}
		return n
	}
	for len(columns) > 1 && used()+min(name, shortName) > width {
		columns = columns[:len(columns)-1]
	}
	name = max(1, min(name, width-used()))
	bar := min(longestBar, width-used()-name-2)
	if bar < shortestBar || by != "day" {
		bar = 0
	}
	var b strings.Builder
	line := func(first string, cells func(column) string, last string) {
		var l strings.Builder
		first = cut(first, name)
		l.WriteString(first + strings.Repeat(" ", name-utf8.RuneCountInString(first)))
		for _, c := range columns {
			fmt.Fprintf(&l, "  %*s", wide(c.title, all, c.of), cells(c))
		}
		if last != "" {
			l.WriteString("  " + last)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	most := int64(1)
	for _, r := range rows {
		most = max(most, r.Total)
	}
	line(strings.ToUpper(by), func(c column) string { return c.title }, "")
	for i, r := range all {
		length := 0
		if i < len(rows) && r.Total > 0 && bar > 0 {
			length = max(1, int(float64(bar)*float64(r.Total)/float64(most)))
		}
		line(tokenName(r.Name), func(c column) string { return grouped(c.of(r)) }, strings.Repeat("#", length))
	}
	return b.String()
}

func tokenName(name string) string {
	if name == "" {
		return "-"
	}
	return shown(name)
}

func wide(title string, rows []tokenRow, of func(tokenRow) int64) int {
	n := len(title)
	for _, r := range rows {
		n = max(n, len(grouped(of(r))))
	}
	return n
}

// grouped is a number with a comma before each three digits.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
