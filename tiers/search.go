package tiers

import (
	"context"
	"fmt"
	"iter"
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
}

// MaxIndexWord bounds the bytes of a word of [IndexText] and [Search].
const MaxIndexWord = 512

// Check answers why a tier can't take the text, or nil.
func (t *IndexText) Check() error {
	if strings.IndexByte(t.Text, 0) >= 0 || !utf8.ValidString(t.Text) {
		return fmt.Errorf("%w: a text for the index has a NUL or is not UTF-8", ErrType)
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
}

// Check answers why there can be no such search, or nil.
func (s *Search) Check() error {
	if err := (Space{Namespace: s.Namespace, Category: s.Category}).Check(); err != nil {
		return err
	}
	if len(s.Words) == 0 && s.Part == "" {
		return fmt.Errorf("%w: a search for nothing", ErrType)
	}
	if n := utf8.RuneCountInString(s.Part); s.Part != "" && n < MinPart {
		return fmt.Errorf("%w: a search for a part of %d characters; there must be %d", ErrType, n, MinPart)
	}
	return (&IndexText{Words: s.Words, Text: s.Part}).Check()
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
