package oneline_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sagestore/sagestore/internal/oneline"
)

func TestWhatIsShownStaysOnItsLine(t *testing.T) {
	for _, c := range []struct{ why, text, want string }{
		{"plain", "a text", "a text"},
		{"breaks and tabs", " a\r\n\tb\n", "a   b"},
		{"an escape sequence", "\x1b[31mred", "[31mred"},
		{"letters that turn the direction", "a\u202eb", "a b"},
		{"no UTF-8", "a\xffb", "a\ufffdb"},
	} {
		if got := oneline.Of(c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, got, c.want)
		}
	}
	long := oneline.Of(strings.Repeat("ü", 1000))
	if !strings.HasSuffix(long, "ü...") || len(long) > 310 || !utf8.ValidString(long) {
		t.Errorf("of a long text: %q", long)
	}
}
