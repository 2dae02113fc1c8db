package tiers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

func TestCheckName(t *testing.T) {
	for _, c := range []struct {
		why  string
		name string
		ok   bool
	}{
		{"a segment", "user-42", true},
		{"segments", "a/b/c", true},
		{"one byte", "a", true},
		{"dots are up to the tier", "../x", true},
		{"any UTF-8", "日本語 😀", true},
		{"control characters but NUL", "a\n\x01", true},
		{"the longest", strings.Repeat("x", tiers.MaxKey), true},
		{"the replacement character is valid", "\ufffd", true},
		{"empty", "", false},
		{"a byte too long", strings.Repeat("x", tiers.MaxKey+1), false},
		{"bytes are counted, not characters", strings.Repeat("é", tiers.MaxKey/2+1), false},
		{"NUL", "a\x00", false},
		{"invalid UTF-8", "a\xff", false},
		{"a surrogate half", "\xed\xa0\x80", false},
		{"an overlong form", "\xc0\xaf", false},
	} {
		err := tiers.CheckName(c.name)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, tiers.ErrKey) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

func TestCheckCategoryAndNamespace(t *testing.T) {
	for _, c := range []struct {
		why                 string
		namespace, category string
		want                error
	}{
		{"a dotted name", "", "session.preferences", nil},
		{"every kind of character", "a-z_09", "A-z_0.9-", nil},
		{"the longest", strings.Repeat("n", tiers.MaxNamespace), strings.Repeat("c", tiers.MaxCategory), nil},
		{"no category", "", "", tiers.ErrCategory},
		{"too long a category", "", strings.Repeat("c", tiers.MaxCategory+1), tiers.ErrCategory},
		{"a leading dot", "", ".a", tiers.ErrCategory},
		{"a trailing dot", "", "a.", tiers.ErrCategory},
		{"an empty segment", "", "a..b", tiers.ErrCategory},
		{"a dot alone", "", ".", tiers.ErrCategory},
		{"a slash", "", "a/b", tiers.ErrCategory},
		{"a letter beyond ASCII", "", "é", tiers.ErrCategory},
		{"a NUL", "", "a\x00", tiers.ErrCategory},
		{"a capital in the namespace", "A", "a", tiers.ErrKey},
		{"a dot in the namespace", "a.b", "a", tiers.ErrKey},
		{"a slash in the namespace", "a/b", "a", tiers.ErrKey},
		{"too long a namespace", strings.Repeat("n", tiers.MaxNamespace+1), "a", tiers.ErrKey},
		{"both wrong: the category comes first", "A", "", tiers.ErrCategory},
	} {
		k := tiers.Key{Namespace: c.namespace, Category: c.category, Name: "k"}
		for what, err := range map[string]error{"key": k.Check(), "space": k.Space().Check()} {
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: %s answers %v, want %v", c.why, what, err, c.want)
			}
		}
	}
	if err := (tiers.Key{Category: "a"}).Check(); !errors.Is(err, tiers.ErrKey) {
		t.Errorf("a key without a name is answered %v", err)
	}
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "a\x00b", "\xff", strings.Repeat("x", tiers.MaxKey+1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if tiers.CheckName(name) != nil {
			return
		}
		if name == "" || len(name) > tiers.MaxKey || strings.ContainsRune(name, 0) || strings.ToValidUTF8(name, "") != name {
			t.Errorf("%q is taken for valid", name)
		}
	})
}
