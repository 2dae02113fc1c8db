package main

import (
	"testing"
)

func TestColumnsThatAreSpareGoBeforeIDsAreCut(t *testing.T) {
	for _, c := range []struct {
		width int
		want  string
	}{
		{60, "ID          AGENT   TIME      TEXT\n0123456789  helper  12:00:00  what was said there\n"},
		{45, "ID          AGENT   TIME      TEXT\n0123456789  helper  12:00:00  what was said …\n"},
		{40, "ID          TIME      TEXT\n0123456789  12:00:00  what was said the…\n"},
		{26, "ID          TEXT\n0123456789  what was said…\n"},
		{23, "ID\n0123456789\n"}, // too few for a text that says something
		{5, "ID\n0123456789\n"},  // an id is whole or of no use
	} {
		tb := &table{columns: []column{{title: "ID"}, {title: "AGENT", spare: 2}, {title: "TIME", spare: 1}, {title: "TEXT", shrink: true, least: 12}}}
		tb.add("0123456789", "helper", "12:00:00", "what was said there")
		if got := tb.text(c.width); got != c.want {
			t.Errorf("%d wide:\n%s\nwant\n%s", c.width, got, c.want)
		}
	}
}

func TestBarsAreDrawnWhereThereIsRoom(t *testing.T) {
	made := func() *table {
		tb := &table{columns: []column{{title: "NAME", shrink: true}, {title: "SIZE", right: true}, {bar: true}}}
		tb.add("first one", "1 B", "1")
		tb.add("second", "50 B", "50")
		tb.add("third", "100 B", "100")
		tb.add("none", "0 B", "0")
		return tb
	}
	for _, c := range []struct {
		why   string
		width int
		want  string
	}{
		{"as long as there is room", 38, "NAME        SIZE\nfirst one    1 B  #\nsecond      50 B  ##########\nthird      100 B  ####################\nnone         0 B\n"},
		{"none where they would say nothing", 20, "NAME        SIZE\nfirst one    1 B\nsecond      50 B\nthird      100 B\nnone         0 B\n"},
		{"none where names have to be cut", 15, "NAME       SIZE\nfirst o…    1 B\nsecond     50 B\nthird     100 B\nnone        0 B\n"},
	} {
		if got := made().text(c.width); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.why, got, c.want)
		}
	}
}

func TestTextIsCutBetweenCharactersAndByItsWidth(t *testing.T) {
	for _, c := range []struct {
		why, text string
		most      int
		want      string
	}{
		{"that fits", "abc", 3, "abc"},
		{"plain", "abcd", 3, "ab…"},
		{"an accent of its own takes no room", "e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"and stays with its letter", "e\u0301e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301…"},
		{"wide characters take two columns", "数据库", 5, "数据…"},
		{"of which there is no half", "数据库", 4, "数…"},
		{"an emoji of several code points", "👨‍👩‍👧‍👦👨‍👩‍👧‍👦", 3, "👨‍👩‍👧‍👦…"},
		{"any number", "abc", 0, "abc"},
	} {
		if got := cut(c.text, c.most); got != c.want {
			t.Errorf("%s: %q in %d is %q, want %q", c.why, c.text, c.most, got, c.want)
		}
	}
	tb := &table{columns: []column{{title: "NAME", shrink: true}, {title: "N"}}}
	tb.add("数据", "1")
	tb.add("e\u0301", "2")
	if got, want := tb.text(40), "NAME  N\n数据  1\ne\u0301     2\n"; got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
