package nearest

import "testing"

func TestDistanceCountsEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "ab", 1},
		{"abc", "acb", 1},
		{"kitten", "sitting", 3},
		{"abc", "", 3},
		{"abcdefgh", "z", 5},
	} {
		if got := Distance(c.a, c.b, 5); got != c.want {
			t.Errorf("%q to %q is %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a, 5); got != c.want {
			t.Errorf("%q to %q is %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestNearestName(t *testing.T) {
	names := []string{"cache", "database", "file", "memory"}
	for _, c := range []struct{ why, name, want string }{
		{"a swap is one mistake", "databsae", "database"},
		{"capitals do not count", "DataBase", "database"},
		{"a word that shares nothing is nobody's", "zzz", ""},
		{"a short word replaced altogether is another word", "abc", ""},
	} {
		if got := Name(c.name, names); got != c.want {
			t.Errorf("%s: %q is near %q, want %q", c.why, c.name, got, c.want)
		}
	}
}
