package segment_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sagestore/sagestore/internal/segment"
	"github.com/sagestore/sagestore/tiers"
)

func texts(words []segment.Word) (all []string) {
	for _, w := range words {
		all = append(all, w.Text)
	}
	return all
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		why, text    string
		words, query string // separated by spaces
	}{
		{"words are folded", "Hello WORLD", "hello world", "hello world"},
		{"what is neither letter nor digit parts words", "a'b POL-358 x_y", "a b pol 358 x y", "a b pol 358 x y"},
		{"letters of all scripts", "Äpfel Ёлка Ωμέγα", "äpfel ёлка ωμέγα", "äpfel ёлка ωμέγα"},
		{"marks belong to the letter before them", "cafe\u0301s", "cafe\u0301s", "cafe\u0301s"},
		{"Chinese is cut into characters and pairs", "数据库", "数 数据 据 据库 库", "数据 据库"},
		{"a single one is itself", "库 a", "库 a", "库 a"},
		{"Japanese as well", "サーバー", "サ サー ー ーバ バ バー ー", "サー ーバ バー"},
		{"and Korean", "서버", "서 서버 버", "서버"},
		{"scripts part words", "Go语言", "go 语 语言 言", "go 语言"},
		{"punctuation of theirs parts runs", "数据。库", "数 数据 据 库", "数据 库"},
		{"nothing", " *\"-'🙂\x00\xff", "", ""},
		{"bytes that are no text part words", "a\xffb\x00c", "a b c", "a b c"},
		{"a sign for Kelvin is a k, and a long s an s", "\u212Aelvin ſalt", "kelvin salt", "kelvin salt"},
	} {
		if got := texts(segment.Words(c.text)); !slices.Equal(got, strings.Fields(c.words)) {
			t.Errorf("%s: the words of %q are %q", c.why, c.text, got)
		}
		if got := texts(segment.Query(c.text)); !slices.Equal(got, strings.Fields(c.query)) {
			t.Errorf("%s: a query for %q is for %q", c.why, c.text, got)
		}
	}
}

func TestOfALongWordTheBeginningCounts(t *testing.T) {
	long := strings.Repeat("ä", 100)
	if got := texts(segment.Words(long + " x")); !slices.Equal(got, []string{strings.Repeat("ä", 64), "x"}) {
		t.Errorf("it is %q", got)
	}
	if got := len(segment.Words(strings.Repeat("数", 100))); got != 199 {
		t.Errorf("a long run without spaces has %d words, want all characters and pairs", got)
	}
}

func TestFoldingIsOfCaseOnlyAndIdempotent(t *testing.T) {
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		f := segment.Rune(r)
		if segment.Rune(f) != f {
			t.Fatalf("%U folds to %U and that to %U", r, f, segment.Rune(f))
		}
		if other := unicode.SimpleFold(r); segment.Rune(other) != f {
			t.Fatalf("%U and %U fold to %U and %U", r, other, f, segment.Rune(other))
		}
	}
	if got := segment.Fold("\x00\xffÀ"); got != "��à" {
		t.Errorf("it is %q", got)
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "Hello, world", "数据库 and SQL", "e\u0301", "\xff\x00", "ͅ\u0345Ι", "İ", strings.Repeat("x", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := segment.Words(text)
		at := 0
		for _, w := range words {
			if w.Start < at || w.End <= w.Start || w.End > len(text) {
				t.Fatalf("%+v is not in order in %q", w, text)
			}
			at = w.Start
			if w.Text != segment.Fold(text[w.Start:w.End]) {
				t.Fatalf("%+v is not what is there in %q", w, text)
			}
		}
		if err := (&tiers.IndexText{Words: texts(words), Text: segment.Fold(text)}).Check(); err != nil {
			t.Fatalf("%q can't be indexed: %v", text, err)
		}
		if again := segment.Words(segment.Fold(text)); !slices.Equal(texts(again), texts(words)) {
			t.Fatalf("folded, the words of %q are %q and not %q", text, texts(again), texts(words))
		}
		for _, q := range segment.Query(text) {
			if !slices.Contains(texts(words), q.Text) {
				t.Fatalf("%q is looked for, and no word of the same text %q", q.Text, text)
			}
		}
	})
}
