package filetree

import (
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

func TestKeysHaveReadableSafeNames(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ ns, category, key, want string }{
		{"", "config", "settings", "config/settings"},
		{"acme", "config", "settings", "@acme/config/settings"},
		{"", "a.b", "c", "a.b/c"},
		{"", "Notes", "k", "%4Eotes/k"},
		{"", "c", "a/b", "c/a/b"},
		{"", "c", "a.b", "c/a.b"},
		{"", "c", "a_b", "c/a_b"},
		{"", "c", "A", "c/%41"},
		{"", "c", ".", "c/%2E"},
		{"", "c", "..", "c/%2E%2E"},
		{"", "c", "../x", "c/%2E%2E/x"},
		{"", "c", "/x", "c/%2Fx"},
		{"", "c", "x/", "c/x%2F"},
		{"", "c", "a//b", "c/a%2F%2Fb"},
		{"", "c", "CON", "c/%43%4F%4E"},
		{"", "c", "con", "c/%63on"},
		{"", "c", "aux.json", "c/%61ux.json"},
		{"", "c", "com1/x", "c/%63om1/x"},
		{"", "c", "com10", "c/com10"},
		{"", "c", "x.", "c/x%2E"},
		{"", "c", "x ", "c/x%20"},
		{"", "c", "%2F", "c/%252%46"},
		{"", "c", "@acme", "c/%40acme"},
		{"", "c", "a.json/b", "c/a%2Ejson/b"},
		{"", "c", "a.sage/b", "c/a%2Esage/b"},
		{"", "c", "a.edited-1", "c/a%2Eedited-1"},
		{"", "c", "😀", "c/%F0%9F%98%80"},
		{"", "c", long, "c/" + long[:160] + "+/" + long[160:]},
		{"", "con", "k", "%63on/k"},
	} {
		p := placeOf(tiers.Key{Namespace: c.ns, Category: c.category, Name: c.key})
		if got := p.dir() + "/" + p.stem; got != c.want {
			t.Errorf("%q in %q is %s, want %s", c.key, c.category, got, c.want)
		}
	}
}

// decodeKey answers the key of a place below its category, as a walk does.
func decodeKey(dirs []string, stem string) string {
	prefix := ""
	for _, dir := range dirs {
		prefix = below(prefix, dir)
	}
	return prefix + unescape(stem)
}

func FuzzNamesAreReversibleAndStayInside(f *testing.F) {
	for _, s := range []string{
		"a", "a/b", "a//b", "/", "//", "..", "../../x", "A", "a", "%2F", "%", "%zz", "x+", "+", "a+/b", "@n", "con", "CON.x", "com1",
		".tmp-01-1-1", "a.json", "a.json/b", "a.edited-3", "a.", ". ", "é", "😀", strings.Repeat("😀/", 200), strings.Repeat("A", 1024),
		strings.Repeat("a.", 500), strings.Repeat("x", 160) + "con", strings.Repeat("x", 158) + "Éy",
	} {
		f.Add(s, "b")
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		k := tiers.Key{Category: "c", Name: name}
		if k.Check() != nil {
			return
		}
		p := placeOf(k)
		for _, part := range append(slices.Clone(p.dirs), p.stem) {
			if part == "" || part[0] == '.' || part[len(part)-1] == '.' || strings.ContainsAny(part, "/\\:*?\"<>| @") || len(part) > longest+3 {
				t.Errorf("%q has the component %q", name, part)
			}
			if strings.Contains(part, edited) || part != strings.Map(lowerHex, part) {
				t.Errorf("%q has the component %q", name, part)
			}
		}
		for _, dir := range p.dirs {
			if strings.HasSuffix(dir, ".json") || strings.HasSuffix(dir, ".sage") || strings.HasSuffix(dir, ".entry") {
				t.Errorf("%q has a directory that looks like a record: %q", name, dir)
			}
		}
		if p.dirs[0] != "c" {
			t.Errorf("%q leaves its category: %q", name, p.dirs)
		}
		if got := decodeKey(p.dirs[1:], p.stem); got != name {
			t.Errorf("%q comes back as %q", name, got)
		}
		if !canonical(k, p.dirs, p.stem) {
			t.Errorf("%q is not canonical for itself", name)
		}
		o := tiers.Key{Category: "c", Name: other}
		if other != name && o.Check() == nil {
			q := placeOf(o)
			if strings.EqualFold(p.dir()+"/"+p.stem, q.dir()+"/"+q.stem) {
				t.Errorf("%q and %q are one file where case is folded", name, other)
			}
		}
	})
}

// lowerHex answers -1, which drops it, for a letter that is upper case and none
// of an escape.
func lowerHex(r rune) rune {
	if 'G' <= r && r <= 'Z' {
		return -1
	}
	return r
}

func FuzzForeignNamesNeverPassAsAnotherKey(f *testing.F) {
	for _, s := range []string{"%2f", "%41", "A", "a b", "%", "%%", "a+b", "..", "a%00", "%FF", "%2e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stem string) {
		if stem == "" || strings.ContainsAny(stem, "/\x00") {
			return
		}
		k := tiers.Key{Category: "c", Name: unescape(stem)}
		if k.Check() == nil && canonical(k, []string{"c"}, stem) {
			if p := placeOf(k); p.stem != stem || len(p.dirs) != 1 {
				t.Errorf("%q passes for %q, whose place is %v", stem, k.Name, p)
			}
		}
	})
}
