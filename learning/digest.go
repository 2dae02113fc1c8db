package learning

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// mostLine bounds a line of a digest in bytes, so that one record does not crowd
// out the others.
const mostLine = 300

// mostRecords is how many records of a book a digest looks at, the best first.
const mostRecords = 100

// Digest answers what is known of a user, and for everybody, as text for a prompt:
// the best records of each book, in turns, with at most maxTokens tokens. It is
// empty when nothing is known or nothing fits. The same records make the same
// text.
func (l *Store) Digest(ctx context.Context, user string, maxTokens int) (string, error) {
	sections := []section{{title: "Patterns"}, {title: "What worked"}, {title: "Feedback"}}
	for i, b := range []*Book{l.Patterns, l.Optimizations, l.Feedback} {
		all, err := b.topOfAll(ctx, Query{})
		if err != nil {
			return "", b.fail("digest", user, err)
		}
		if user != "" {
			own, err := b.Top(ctx, Query{User: user})
			if err != nil {
				return "", b.fail("digest", user, err)
			}
			all = append(all, own...)
			slices.SortFunc(all, better)
		}
		sections[i].records = all[:min(len(all), mostRecords)]
	}
	text := ""
	for {
		added := false
		for i := range sections {
			s := &sections[i]
			if len(s.records) == 0 {
				continue
			}
			line := lineOf(s.records[0])
			s.records = s.records[1:]
			if line == "" {
				added = true
				continue
			}
			s.lines = append(s.lines, line)
			if longer := join(sections); l.count(longer) <= maxTokens {
				text, added = longer, true
				continue
			}
			s.lines = s.lines[:len(s.lines)-1]
			added = true // a shorter one may fit
		}
		if !added {
			return text, nil
		}
	}
}

type section struct {
	title   string
	records []Record
	lines   []string
}

func join(sections []section) string {
	var b strings.Builder
	for _, s := range sections {
		if len(s.lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s:\n", s.title)
		for _, line := range s.lines {
			b.WriteString(line)
		}
	}
	return b.String()
}

// lineOf is a record as one line; its text can't begin another one.
func lineOf(r Record) string {
	text := strings.Join(strings.Fields(r.Text), " ")
	if text == "" {
		return ""
	}
	if len(text) > mostLine {
		cut := mostLine
		for cut > 0 && text[cut]&0xc0 == 0x80 {
			cut-- // not inside of a character
		}
		text = text[:cut] + "…"
	}
	kind := strings.Join(strings.Fields(r.Kind), " ")
	if kind != "" {
		kind = "[" + kind + "] "
	}
	if r.Seen > 1 {
		return fmt.Sprintf("- %s%s (seen %d times)\n", kind, text, r.Seen)
	}
	return fmt.Sprintf("- %s%s\n", kind, text)
}
