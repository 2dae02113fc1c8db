package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
)

// table is laid out so that it fits the terminal: columns that may shrink are cut as
// far as they may, then those that are spare are left out, the sparest first, and at last
// the others from the right, but for the first one. Ids are never cut, since they are for
// the next command.
type table struct {
	columns []column
	rows    [][]string
	whole   bool // nothing is cut or left out where there is no terminal
	bare    bool // without titles
}

type column struct {
	title  string
	right  bool // numbers
	shrink bool
	least  int  // how far it shrinks; 0: narrowest
	spare  int  // above 0: left out where there is no room
	bar    bool // whole numbers, shown as bars where there is room for them; the last column only
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// narrowest is how far a column shrinks.
const narrowest = 8

// widthWithout is for output that is no terminal: nothing that fits it is cut there.
const widthWithout = 160

func (a *app) printTable(t table) error {
	width := a.width()
	switch {
	case width == 0 && t.whole:
		width = math.MaxInt32
	case width == 0:
		width = widthWithout
		if n := len(t.columns) - 1; t.columns[n].bar {
			t = *t.without(n) // it is for people
		}
	}
	_, err := fmt.Fprint(a.out, t.text(width))
	return err
}

// text lays the table out for a width.
func (t *table) text(width int) string {
	if n := len(t.columns) - 1; n >= 0 && t.columns[n].bar {
		t = t.barred(width)
	}
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = uniseg.StringWidth(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	if !t.shrink(widths, width) {
		sparest := 0
		for i, c := range t.columns {
			if c.spare > t.columns[sparest].spare {
				sparest = i
			}
		}
		switch last := len(t.columns) - 1; {
		case t.columns[sparest].spare > 0:
			return t.without(sparest).text(width)
		case last > 0: // what a row is called stays whole, for the next command
			return t.without(last).text(width)
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		var l strings.Builder
		for i, cell := range cells {
			cell = cut(cell, widths[i])
			pad := strings.Repeat(" ", max(0, widths[i]-uniseg.StringWidth(cell)))
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
	if !t.bare {
		line(titles)
	}
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// barred is the table with bars in the place of the numbers of its last column, as long
// as there is room for, or without that column.
func (t *table) barred(width int) *table {
	last := len(t.columns) - 1
	plain := t.without(last)
	used := 0
	for line := range strings.Lines(plain.text(width)) {
		used = max(used, uniseg.StringWidth(strings.TrimSpace(line)))
	}
	room := min(longestBar, width-used-2)
	if room < shortestBar {
		return plain
	}
	numbers, most := make([]int64, len(t.rows)), int64(1)
	for i, row := range t.rows {
		numbers[i], _ = strconv.ParseInt(row[last], 10, 64) // 0 for what is none
		most = max(most, numbers[i])
	}
	drawn := &table{bare: t.bare, columns: slices.Clone(t.columns)}
	drawn.columns[last] = column{title: t.columns[last].title}
	for i, row := range t.rows {
		length := int(float64(room) * float64(numbers[i]) / float64(most))
		if numbers[i] > 0 {
			length = max(1, length)
		}
		drawn.rows = append(drawn.rows, append(slices.Clone(row[:last]), strings.Repeat("#", length)))
	}
	return drawn
}

// without is the table without a column.
func (t *table) without(i int) *table {
	out := &table{whole: t.whole, bare: t.bare, columns: slices.Delete(slices.Clone(t.columns), i, i+1)}
	for _, row := range t.rows {
		out.rows = append(out.rows, slices.Delete(slices.Clone(row), i, i+1))
	}
	return out
}

// shrink takes from the widest column that may shrink until all fit, and tells whether
// they do.
func (t *table) shrink(widths []int, width int) bool {
	for {
		total := 2 * (len(widths) - 1)
		widest := -1
		for i, w := range widths {
			total += w
			if t.columns[i].shrink && w > cmp.Or(t.columns[i].least, narrowest) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if total <= width || widest < 0 {
			return total <= width
		}
		widths[widest]--
	}
}
