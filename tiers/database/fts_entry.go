package database

import (
	"hash/fnv"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// A word of an entry is a term by itself, which is looked for when its grade does not
// matter, and one that ends in a character which says the grade. A mark ends in one that
// says that it is a mark.
const (
	gradeSign = '\u0080' // that of grade 0
	markSign  = '\u0090'
)

// entryWords are the terms of a text's words and marks, separated by spaces.
func entryWords(t *tiers.IndexText) string {
	var b strings.Builder
	term := func(text string, sign rune) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
		b.WriteRune(sign)
	}
	for _, m := range t.Marks {
		term(m, markSign)
	}
	for _, w := range t.Words {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	for i, w := range t.Words {
		grade := rune(0)
		if t.Grades != nil {
			grade = rune(t.Grades[i])
		}
		term(w, gradeSign+grade)
	}
	return b.String()
}

// entryText is what is indexed in parts of three characters: the marks, each as three
// characters that no text has, and the text.
func entryText(t *tiers.IndexText) string {
	var b strings.Builder
	b.Grow(len(t.Text) + 12*len(t.Marks))
	for _, m := range t.Marks {
		b.WriteString(markPart(m))
	}
	b.WriteString(t.Text)
	return b.String()
}

// markPart stands for a mark among the parts of a text. Two marks may have the same:
// who searches looks at the records.
func markPart(mark string) string {
	const private = 0x100000 // the last of the planes for private use, 16 bits of them
	h := fnv.New64a()
	_, _ = h.Write([]byte(mark)) // it never fails
	sum := h.Sum64()
	var b strings.Builder
	for range 3 {
		b.WriteRune(private | rune(sum&0xffff))
		sum >>= 16
	}
	return b.String()
}

// enoughWords is how many words a query of FTS5 names at most: of very many it names
// some. More is found then, which the caller sorts out.
const enoughWords = 24

// match is a query of FTS5 for the entries that have all the words and marks.
func match(words, marks []string) string {
	q := newTerms()
	for _, m := range marks {
		q.and(m + string(markSign))
	}
	for _, w := range words[:min(len(words), enoughWords)] {
		q.and(w)
	}
	return q.b.String()
}

// matchGrade is a query for the entries of a grade: all their words have it or a higher
// one, and not all a higher one. grades are those that there are of each word. It is
// empty when there can be no such entry.
func matchGrade(words, marks []string, grades [][]uint8, grade uint8) string {
	from := func(marks []string, least uint8) string {
		q := newTerms()
		for _, m := range marks {
			q.and(m + string(markSign))
		}
		for i, of := range grades {
			var some []string
			for _, g := range of {
				if g >= least {
					some = append(some, graded(words[i], g))
				}
			}
			if len(some) == 0 {
				return ""
			}
			q.and(some...)
		}
		return q.b.String()
	}
	these, above := from(marks, grade), ""
	if these != "" && grade < tiers.MaxGrade {
		above = from(nil, grade+1)
	}
	if above == "" {
		return these
	}
	return "(" + these + ") NOT (" + above + ")"
}

// graded is the term of a word in a grade.
func graded(word string, grade uint8) string { return word + string(gradeSign+rune(grade)) }

// matchParts is a query for the entries that have the part and the marks in their
// text, or every three characters of them.
func matchParts(part string, marks []string) string {
	const enough = 48
	q := newTerms()
	for _, m := range marks {
		q.and(markPart(m))
	}
	for _, t := range trigrams(part) {
		if q.n == enough {
			break
		}
		q.and(t)
	}
	return q.b.String()
}

// terms writes a query of FTS5 that demands something of all it was given.
type terms struct {
	b    strings.Builder
	n    int
	seen map[string]bool
}

func newTerms() *terms { return &terms{seen: map[string]bool{}} }

// and demands one of some terms.
func (t *terms) and(some ...string) {
	if t.seen[some[0]] {
		return
	}
	t.seen[some[0]] = true
	if t.n++; t.n > 1 {
		t.b.WriteString(" AND ")
	}
	for i, term := range some {
		t.b.WriteString([]string{"(", " OR "}[min(i, 1)])
		t.b.WriteByte('"')
		t.b.WriteString(strings.ReplaceAll(term, `"`, `""`))
		t.b.WriteByte('"')
	}
	t.b.WriteByte(')')
}

// trigrams are the parts of three characters of a text.
func trigrams(text string) (all []string) {
	var starts []int // of the characters
	for i := range text {
		starts = append(starts, i)
	}
	starts = append(starts, len(text))
	for i := 3; i < len(starts); i++ {
		all = append(all, text[starts[i-3]:starts[i]])
	}
	return all
}
