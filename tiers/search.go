package tiers

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// IndexText is what a record is to be found by in a [Searcher]. Whoever makes it
// decides what a word is and folds upper and lower case: a tier compares bytes.
type IndexText struct {
	// Words, of a-z, 0-9 and what is beyond ASCII, at most MaxIndexWord bytes each.
	Words []string
	// Text is valid UTF-8 without NUL.
	Text string

	// The rest is for a TopSearcher.

	// Grades say of each word how much the record is about it, up to MaxGrade; nil is 0
	// for all of them.
	Grades []uint8
	// Order is greater for what is to be found first among equals, 0 to MaxOrder.
	Order int64
	// Marks are what the record belongs to, of the characters of words.
	Marks []string
}

// MaxGrade and MaxOrder bound the grades and the order of [IndexText]. Steps of 64
// microseconds since 1970 reach MaxOrder in the year 2112.
const (
	MaxGrade = 15
	MaxOrder = 1<<46 - 1
)

// MaxIndexWord bounds the bytes of a word of [IndexText] and [Search].
const MaxIndexWord = 512

// Check answers why a tier can't take the text, or nil.
func (t *IndexText) Check() error {
	if strings.IndexByte(t.Text, 0) >= 0 || !utf8.ValidString(t.Text) {
		return fmt.Errorf("%w: a text for the index has a NUL or is not UTF-8", ErrType)
	}
	if t.Order < 0 || t.Order > MaxOrder || t.Grades != nil && len(t.Grades) != len(t.Words) || slices.ContainsFunc(t.Grades, func(g uint8) bool { return g > MaxGrade }) {
		return fmt.Errorf("%w: a text for the index has the order %d, and %d grades for %d words", ErrType, t.Order, len(t.Grades), len(t.Words))
	}
	if err := checkWords(t.Marks); err != nil {
		return err
	}
	return checkWords(t.Words)
}

func checkWords(words []string) error {
	for _, w := range words {
		if w == "" || len(w) > MaxIndexWord || strings.IndexFunc(w, noWord) >= 0 {
			return fmt.Errorf("%w: %.64q is no word for an index: it may have %d bytes of a-z, 0-9 and what is beyond ASCII", ErrType, w, MaxIndexWord)
		}
	}
	return nil
}

func noWord(r rune) bool {
	return r < utf8.RuneSelf && (r < 'a' || r > 'z') && (r < '0' || r > '9')
}

// MinPart is how many characters [Search].Part has at least.
const MinPart = 3

// Search says which records of one category of one namespace are looked for:
// those with all the words, and with the part in their text.
type Search struct {
	Namespace string
	Category  string
	Prefix    string   // of the key's string, as in [Query]
	Words     []string // as in [IndexText]
	Part      string   // at least MinPart characters; or empty
	Marks     []string // which the record must have; only a TopSearcher looks at them
}

// Check answers why there can be no such search, or nil.
func (s *Search) Check() error {
	if err := (Space{Namespace: s.Namespace, Category: s.Category}).Check(); err != nil {
		return err
	}
	if len(s.Words) == 0 && s.Part == "" && len(s.Marks) == 0 {
		return fmt.Errorf("%w: a search for nothing", ErrType)
	}
	if n := utf8.RuneCountInString(s.Part); s.Part != "" && n < MinPart {
		return fmt.Errorf("%w: a search for a part of %d characters; there must be %d", ErrType, n, MinPart)
	}
	return (&IndexText{Words: s.Words, Text: s.Part, Marks: s.Marks}).Check()
}

// Found is a record that a search came upon.
type Found struct {
	Name    string // of its key
	Version Version
}

// Searcher keeps what [Record].Index says, in the same step as the record. It
// goes when the record is deleted, expires, or is saved without one. A touch
// leaves it as it is. An encrypted record has none, whatever a save says.
//
// A tier that is no Searcher ignores [Record].Index. Nothing loads or lists it.
type Searcher interface {
	// Search yields the live records that are looked for, each once and in no
	// order. It may yield others, which have the words, or every three
	// characters of the part, but not the part itself: the caller looks at the
	// records. One that is changed meanwhile may be missing. It holds no lock
	// while it yields; an error ends it.
	Search(ctx context.Context, s Search) iter.Seq2[Found, error]
	// Unindexed yields the live records selected by q that have no text in the
	// index, by key.
	Unindexed(ctx context.Context, q Query) iter.Seq2[Found, error]
	// Gaps answers a number that grows whenever records have come that have no text,
	// other than by a save to a key that had none: by Apply, by Switch, by a save
	// over one with a text. As long as it stays, what Unindexed yields can be known.
	Gaps(ctx context.Context) (uint64, error)
	// Reindex gives records their Index where Version is still what is stored, and
	// changes nothing else of them. It passes over the others.
	Reindex(ctx context.Context, rs []Record) error
}

// TopSearcher is a [Searcher] that comes upon the best first, however many there are.
type TopSearcher interface {
	Searcher
	// Top yields what Search does, in order: by grade from the highest on, and of one
	// grade by [IndexText].Order from the highest on. The grade of a record is the
	// least that it has of the words that are looked for; without words it is
	// MaxGrade.
	Top(ctx context.Context, s Search) iter.Seq2[Ranked, error]
}

// Ranked is a record with its place among those that a search comes upon. Grade and
// Order are those of the record or more, and the next one has no more: not a higher
// grade, and in the same grade no higher order. So who has found enough that is above
// them is done.
type Ranked struct {
	Found
	Grade uint8
	Order int64
}
