package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// table is laid out so that it fits the terminal: columns that may shrink are cut as
// far as it takes.
type table struct {
	columns []column
	rows    [][]string
}

type column struct {
	title  string
	right  bool // numbers
	shrink bool
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// narrowest is how far a column shrinks.
const narrowest = 8

// widthWithout is for output that is no terminal: nothing that fits it is cut there.
const widthWithout = 160

func (a *app) printTable(t table) error {
	width := a.width()
	if width == 0 {
		width = widthWithout
	}
	_, err := fmt.Fprint(a.out, t.text(width))
	return err
}

// text lays the table out for a width.
func (t *table) text(width int) string {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	t.shrink(widths, width)
	var b strings.Builder
	line := func(cells []string) {
		var l strings.Builder
		for i, cell := range cells {
			cell = cut(cell, widths[i])
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				l.WriteString("  ")
			}
			if t.columns[i].right {
				l.WriteString(pad + cell)
			} else {
				l.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	line(titles)
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// shrink takes from the widest column that may shrink until all fit.
func (t *table) shrink(widths []int, width int) {
	for {
		total := 2 * (len(widths) - 1)
		widest := -1
		for i, w := range widths {
			total += w
			if t.columns[i].shrink && w > narrowest && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if total <= width || widest < 0 {
			return
		}
		widths[widest]--
	}
}
