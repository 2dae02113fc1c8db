// Package segment cuts text into the words that it can be found by, and folds upper
// and lower case. An index and a scan that use it find the same.
//
// A word is a run of letters, digits and marks of any script, folded. Chinese,
// Japanese and Korean are written without spaces, or with endings that are part of
// the word, so a run of their characters is every character by itself and every two
// that stand side by side; what is looked for are the pairs.
//
// Folding is Unicode's simple one, a character for a character: "É" is "é" and "ſ"
// is "s", but "ß" is not "ss". There is no normalization: "é" and "e" with an accent
// behind it are two texts, as they are two sequences of bytes.
package segment

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is how many characters of a word count; what comes behind is passed over.
const maxWord = 64

// Word is a word of a text.
type Word struct {
	Text       string // folded
	Start, End int    // where it is in the text, in bytes
}

// Fold folds the case of a text. Bytes that are no UTF-8, and NUL, become U+FFFD.
func Fold(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		b.WriteRune(Rune(r))
	}
	return b.String()
}

// Rune folds the case of a character: all that differ in case only are the same.
// Folded twice it is as folded once. NUL becomes U+FFFD.
func Rune(r rune) rune {
	switch {
	case r == 0:
		return utf8.RuneError
	case 'A' <= r && r <= 'Z':
		return r + 'a' - 'A'
	case r < utf8.RuneSelf:
		return r
	}
	// The least of those that differ in case only stands for them all.
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	return unicode.ToLower(unicode.ToUpper(least))
}

// Words answers what a text is found by, in order of where it begins.
func Words(text string) []Word { return cut(text, true) }

// Query answers what a text must have that is looked for by words. It is empty when
// there are no words in the query.
func Query(text string) []Word { return cut(text, false) }

// The kinds of characters.
const (
	between = iota
	letter
	ideograph // and what is written like it
)

func cut(text string, singles bool) (words []Word) {
	kind := between
	var starts []int // of the characters of the run that count
	end := 0
	flush := func() {
		switch kind {
		case letter:
			words = append(words, Word{Text: Fold(text[starts[0]:end]), Start: starts[0], End: end})
		case ideograph:
			words = pairs(words, text, append(starts, end), singles)
		}
		starts = starts[:0]
	}
	for i, r := range text {
		k := kindOf(r, kind)
		if k != kind {
			flush()
			kind = k
		}
		if k == ideograph || k == letter && len(starts) < maxWord {
			starts = append(starts, i)
			end = i + utf8.RuneLen(r)
		}
	}
	flush()
	return words
}

// pairs adds the words of a run whose characters begin where starts says.
func pairs(words []Word, text string, starts []int, singles bool) []Word {
	last := len(starts) - 1
	for i := range last {
		if singles || last == 1 {
			words = append(words, Word{Text: Fold(text[starts[i]:starts[i+1]]), Start: starts[i], End: starts[i+1]})
		}
		if i+2 <= last {
			words = append(words, Word{Text: Fold(text[starts[i]:starts[i+2]]), Start: starts[i], End: starts[i+2]})
		}
	}
	return words
}

// kindOf tells the kind of a character behind one of another kind.
func kindOf(r rune, before int) int {
	switch {
	case r < utf8.RuneSelf:
		if 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' {
			return letter
		}
		return between
	case unicode.IsMark(r):
		return max(before, letter) // it belongs to what is before it
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo), r == 'ー', r == 'ｰ':
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return ideograph
		}
		return between
	case unicode.IsLetter(r), unicode.IsNumber(r):
		return letter
	}
	return between
}
