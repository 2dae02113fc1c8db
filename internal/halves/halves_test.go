package halves_test

import (
	"errors"
	"testing"

	"github.com/sagestore/sagestore/internal/halves"
	"github.com/sagestore/sagestore/tiers"
)

func TestHalfACharacterIsFound(t *testing.T) {
	for _, c := range []struct {
		why, text string
		half      bool
	}{
		{"no escape", `{"a":"b"}`, false},
		{"a pair", `"\ud83d\ude00"`, false},
		{"a pair in capitals", `"\uD83D\uDE00"`, false},
		{"the first half", `"\ud83d"`, true},
		{"the second half", `"\ude00 x"`, true},
		{"the wrong way round", `"\ude00\ud83d"`, true},
		{"behind a pair", `"\ud83d\ude00\ud800"`, true},
		{"a backslash, and no escape", `"\\ud800"`, false},
		{"a backslash, and an escape", `"\\\ud800"`, true},
		{"another character", `"\u0041"`, false},
		{"cut off", `"\ud8`, false},
		{"in a key", `{"\udfff":1}`, true},
	} {
		if err := halves.Check([]byte(c.text)); errors.Is(err, tiers.ErrCorrupt) != c.half {
			t.Errorf("%s: %s answers %v", c.why, c.text, err)
		}
	}
}
