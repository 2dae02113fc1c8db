package agent

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	seg "github.com/sagestore/sagestore/internal/segment"
	"github.com/sagestore/sagestore/tiers"
)

// matcher tells whether a message is what a query looks for, and how much. It is
// the same whether an index or a listing came upon the message.
type matcher struct {
	*Query
	mode  Mode
	part  string   // folded
	words []string // each once
}

func newMatcher(q *Query) *matcher {
	m := &matcher{Query: q, mode: q.Mode}
	if m.mode == ByWords {
		for _, w := range seg.Query(q.Text) {
			if !slices.Contains(m.words, w.Text) {
				m.words = append(m.words, w.Text)
			}
		}
		return m
	}
	m.mode, m.part = Contains, seg.Fold(q.Text)
	return m
}

// nothing tells that no message can be what is looked for: there are no words.
func (m *matcher) nothing() bool { return m.mode == ByWords && len(m.words) == 0 }

// wants tells whether a message passes the filters.
func (m *matcher) wants(r Role, at time.Time) bool {
	return (m.Role == "" || m.Role == r) && (m.Since.IsZero() || !at.Before(m.Since)) && (m.Until.IsZero() || at.Before(m.Until))
}

// wantsHead tells whether the messages of a conversation are looked at.
func (m *matcher) wantsHead(h *headRecord) bool {
	return (m.Tag == "" || slices.Contains(h.Tags, m.Tag)) && (m.Archived == nil || *m.Archived == h.Archived)
}

// searched is the part of a message's content that is searched.
func searched(content string) string {
	if len(content) <= searchedBytes {
		return content
	}
	end := searchedBytes
	for end > 0 && !utf8.RuneStart(content[end]) {
		end--
	}
	return content[:end]
}

// gradeOf tells how much a message is about a word that is in it so often, of so many
// words in all: what BM25 says without what depends on other messages, a number from 0
// to 1, in MaxGrade+1 steps. It is made of whole numbers, so that it is the same on
// every machine.
func gradeOf(times, words int) uint8 {
	t, n := uint64(times), uint64(words)                                 //nolint:gosec // they are counts
	return uint8((tiers.MaxGrade + 1) * 1000 * t / (1000*t + 300 + 9*n)) //nolint:gosec // up to MaxGrade
}

// rankOf is what a hit says of its grade.
func rankOf(grade uint8) float64 { return (float64(grade) + 1) / (tiers.MaxGrade + 2) }

// grade tells whether a content is what is looked for, and how much it is about that
// of the words which it is about least.
func (m *matcher) grade(content string) (grade uint8, ok bool) {
	content = searched(content)
	if m.mode == Contains {
		return tiers.MaxGrade, strings.Contains(seg.Fold(content), m.part)
	}
	all := seg.Words(content)
	counts := make([]int, len(m.words))
	for _, w := range all {
		if i := slices.Index(m.words, w.Text); i >= 0 {
			counts[i]++
		}
	}
	grade = tiers.MaxGrade
	for _, n := range counts {
		if n == 0 {
			return 0, false
		}
		grade = min(grade, gradeOf(n, len(all)))
	}
	return grade, true
}

// spans answers what of a content was found, in order; none when it is not what is
// looked for.
func (m *matcher) spans(content string) (spans []Span) {
	content = searched(content)
	if m.mode == Contains {
		return partsOf(content, m.part)
	}
	if _, ok := m.grade(content); !ok {
		return nil
	}
	for _, w := range seg.Words(content) {
		if slices.Contains(m.words, w.Text) {
			spans = append(spans, Span{w.Start, w.End})
		}
	}
	return spans
}

// partsOf answers where a folded part is in a text that is not: folding makes a
// character of a character, of another length perhaps.
func partsOf(text, part string) (spans []Span) {
	folded := seg.Fold(text)
	at, in := 0, 0 // the same place, in the folded text and in the text
	forward := func(to int) int {
		for at < to {
			r, n := utf8.DecodeRuneInString(text[in:])
			at += utf8.RuneLen(seg.Rune(r))
			in += n
		}
		return in
	}
	for from := 0; ; {
		i := strings.Index(folded[from:], part)
		if i < 0 {
			return spans
		}
		start := forward(from + i)
		from += i + len(part)
		spans = append(spans, Span{start, forward(from)})
	}
}
