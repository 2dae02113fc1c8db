package agent

import (
	"github.com/rivo/uniseg"
)

// Lengths of a snippet, in characters as people see them.
const (
	snippetBefore = 40
	snippetLength = 160
	snippetCut    = "…"
)

// snippet answers the part of a text around the first of some spans, of which there
// is at least one, and where the spans are in it. It cuts no character, and a
// character of which some was found is found.
func snippet(text string, spans []Span) (string, []Span) {
	starts := clusters(text) // and the end
	before := func(at int) int {
		i := 0
		for j := len(starts); i < j; { // the last start that is not behind at
			if mid := int(uint(i+j) >> 1); starts[mid] <= at {
				i = mid + 1
			} else {
				j = mid
			}
		}
		return i - 1
	}
	last := len(starts) - 1
	first := max(0, before(spans[0].Start)-snippetBefore)
	end := min(last, first+snippetLength)
	first = max(0, min(first, end-snippetLength))
	out := text[starts[first]:starts[end]]
	shift := -starts[first]
	if first > 0 {
		out = snippetCut + out
		shift += len(snippetCut)
	}
	if end < last {
		out += snippetCut
	}
	var found []Span
	for _, s := range spans {
		from, to := max(before(s.Start), first), before(s.End)
		if starts[to] < s.End {
			to++
		}
		if to = min(to, end); from >= to {
			continue
		}
		h := Span{starts[from] + shift, starts[to] + shift}
		if n := len(found); n > 0 && h.Start <= found[n-1].End {
			found[n-1].End = max(found[n-1].End, h.End)
		} else {
			found = append(found, h)
		}
	}
	return out, found
}

// clusters answers where the characters of a text begin, and its end.
func clusters(text string) []int {
	starts := []int{0}
	at := 0
	for rest, state := text, -1; rest != ""; {
		var c string
		c, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		at += len(c)
		starts = append(starts, at)
	}
	return starts
}
