// Package halves finds what JSON can say and UTF-8 can't: half a character.
package halves

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"

	"github.com/sagestore/sagestore/tiers"
)

// Check answers tiers.ErrCorrupt for a JSON text in which an escape stands for half a
// pair of surrogates. Decoders put U+FFFD in its place without a word.
func Check(text []byte) error {
	if n := Index(text); n >= 0 {
		return fmt.Errorf("%w: the escape %s is half a character", tiers.ErrCorrupt, text[n:n+6])
	}
	return nil
}

// Index answers where in a JSON text an escape stands for half a character,
// or -1.
func Index(text []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '\\')
		if n < 0 || at+n+1 >= len(text) {
			return -1
		}
		at += n
		r := escaped(text[at:])
		switch {
		case r < 0:
			at += 2 // the next byte may be a backslash itself
		case !utf16.IsSurrogate(r):
			at += 6
		case utf16.DecodeRune(r, escaped(text[at+6:])) == '\uFFFD':
			return at
		default:
			at += 12
		}
	}
}

// escaped answers what the escape stands for that a text begins with; -1: it does not
// begin with one of four digits.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
