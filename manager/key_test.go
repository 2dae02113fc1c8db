package manager_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/manager"
)

func TestKeyEscapesWithinSegments(t *testing.T) {
	t.Parallel()
	cases := []struct {
		why      string
		segments []string
		key      string
	}{
		{"no segment is no key", nil, ""},
		{"a plain segment stays as it is", []string{"acme"}, "acme"},
		{"segments are joined by a slash", []string{"acme", "x"}, "acme/x"},
		{"a slash within a segment does not separate", []string{"a/b", "c"}, "a%2Fb/c"},
		{"an escape within a segment stays text", []string{"%2F"}, "%252F"},
		{"an empty segment is kept", []string{"a", "", "b"}, "a//b"},
	}
	for _, c := range cases {
		if got := manager.Key(c.segments...); got != c.key {
			t.Errorf("%s: Key(%q) = %q, want %q", c.why, c.segments, got, c.key)
		}
	}
}

func TestSplitKeyTakesTheEscapesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.StringOf(rapid.RuneFrom([]rune("ab/%2F5é\n")))
		segments := rapid.SliceOfN(segment, 1, 5).Draw(t, "segments")
		if got := manager.SplitKey(manager.Key(segments...)); !slices.Equal(got, segments) {
			t.Fatalf("SplitKey(Key(%q)) = %q", segments, got)
		}
	})
}

func TestDifferentSegmentsNeverMakeTheSameKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(rapid.StringOf(rapid.RuneFrom([]rune("a/%2F5"))), 1, 4)
		a, b := segments.Draw(t, "a"), segments.Draw(t, "b")
		if manager.Key(a...) == manager.Key(b...) && !slices.Equal(a, b) {
			t.Fatalf("%q and %q both make %q", a, b, manager.Key(a...))
		}
	})
}

func TestTextThatKeyWouldNotMakeStaysAsItIs(t *testing.T) {
	t.Parallel()
	if got := manager.SplitKey("100%/a%2f"); !slices.Equal(got, []string{"100%", "a%2f"}) {
		t.Errorf("SplitKey = %q", got)
	}
}
