package postgres

import (
	"strings"
	"unicode/utf8"

	"github.com/sagestore/sagestore/tiers"
)

// span is which keys a query selects. The server gets bounds that are valid text, as
// it takes no other; holds tells what they can't. In the order of bytes the keys are
// not below low, above after, below high, and not above last.
type span struct {
	low, after, high, last string
	prefix, from           string // as they were given
	reverse                bool
}

// beyond is greater than every key: a key has 1024 bytes at most.
const (
	highest = "\U0010FFFF"
	beyond  = highest + highest + highest + highest + highest + highest + highest + highest
)

// top is greater than every key.
func top() string { return strings.Repeat(beyond, tiers.MaxKey/len(beyond)+1) }

func spanOf(q tiers.Query) span {
	s := span{high: top(), last: top(), prefix: q.Prefix, from: q.After, reverse: q.Reverse}
	s.low, s.high = text(q.Prefix), following(text(q.Prefix))
	switch after := text(q.After); {
	case q.After == "":
	case !q.Reverse:
		s.after = after
	case after == q.After:
		s.high = min(s.high, after)
	default: // what was left out may be below
		s.high = min(s.high, following(after))
	}
	return s
}

// until narrows a span to the end of a range, which belongs to it.
func (s span) until(r tiers.Range) span {
	switch end := text(r.End); {
	case r.End == "":
	case r.Query.Reverse:
		s.low = max(s.low, end)
	default:
		s.last = min(s.last, end)
	}
	return s
}

// empty tells whether no key can be in the span.
func (s span) empty() bool { return s.low >= s.high || s.after >= s.high || s.low > s.last }

// holds tells whether a key that is between the bounds is what was asked for.
func (s span) holds(name string) bool {
	switch {
	case !strings.HasPrefix(name, s.prefix):
		return false
	case s.from == "":
		return true
	case s.reverse:
		return name < s.from
	}
	return name > s.from
}

// beyond answers the span from a key on, in its direction.
func (s span) beyond(name string) span {
	if s.reverse {
		s.high = name
	} else {
		s.after = name
	}
	return s
}

// within tells whether the bounds hold for a key.
func (s span) within(name string) bool {
	return name >= s.low && name > s.after && name < s.high && name <= s.last && s.holds(name)
}

func (s span) args() []any { return []any{s.low, s.after, s.high, s.last} }

// text answers the beginning of a string that the server can compare.
func text(s string) string {
	for i, r := range s {
		if r == 0 || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return s[:i]
		}
	}
	return s
}

// following is the least text that is greater than every one with the prefix.
func following(prefix string) string {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch r {
		case utf8.MaxRune:
			continue
		case 0xD7FF: // surrogates are no characters
			r = 0xE000
		default:
			r++
		}
		return prefix + string(r)
	}
	return top()
}
