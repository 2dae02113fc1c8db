// Package oneline shows texts of others in tables and messages.
package oneline

import (
	"strings"
	"unicode"
)

// most bounds what is shown of one text, in bytes.
const most = 300

// Of is the text without what would break the line or talk to a terminal, and its
// beginning only when it is long. What is no UTF-8 becomes U+FFFD.
func Of(text string) string {
	var b strings.Builder
	for _, r := range text {
		if b.Len() >= most {
			b.WriteString("...")
			break
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
