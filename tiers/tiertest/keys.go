package tiertest

import (
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func keyRules() []rule {
	return []rule{
		{
			name: "awkward keys are distinct and list back",
			why:  "a store that maps odd characters to one loses records, or lets a key out of its directory",
			run: func(t *T) {
				keys := awkwardKeys()
				t.each(len(keys), func(i int) { t.save(raw(named(keys[i]), "value of "+keys[i])) })
				for _, k := range keys {
					t.wantValue("saved", named(k), "value of "+k)
				}
				want := slices.Sorted(slices.Values(keys))
				t.wantNames("list", t.names(tiers.Query{Category: category}), want)
				slices.Reverse(want)
				t.wantNames("list in reverse", t.names(tiers.Query{Category: category, Reverse: true}), want)
				if t.Durable {
					t.Reopen()
					slices.Reverse(want)
					t.wantNames("list after opening again", t.names(tiers.Query{Category: category}), want)
				}
				// Each goes alone: deleting one takes no other with it.
				for i, k := range keys {
					if i%2 == 0 {
						t.delete(named(k))
					}
				}
				for i, k := range keys {
					if i%2 == 0 {
						t.wantAbsent("deleted", named(k))
					} else {
						t.wantValue("its neighbours deleted", named(k), "value of "+k)
					}
				}
			},
		},
		{
			name: "bad keys are refused",
			why:  "what can't be listed, escaped or shown must not get in",
			run:  badKeysAreRefused,
		},
		{
			name: "spaces keep the same key apart",
			why:  "categories that are prefixes of each other, and namespaces, must not run together",
			run:  spacesKeepApart,
		},
	}
}

// awkwardKeys are valid keys that stores got wrong.
func awkwardKeys() []string {
	return []string{
		"a/b", "a_b", "a.b", "A", "a", ".", "..", "../x", "CON", "aux.json", "nul", "com1.txt",
		"trailing.", "trailing ", "trailing", " leading", "-leading", "--", "~", "~user",
		"%2F", "%2f", "%", "%%", "a%2Fb", "a%b", "/", "//", "a/", "a//b", "/a", "a/b/c", "a/../b", "a/./b", "./a", "..a", "a..", "...",
		`a\b`, `\`, `C:\x`, "a:b", "a;b", "a*b", "*", "?", `"`, "'", "a'b", "`", "<>|", "$HOME", "${x}", "#", "&", "{a}", "}{", "[a]",
		"@", "@a", "a@b", ".a", ".hidden", ".snapshot", ".sage-id", ".edited-1", "x.edited-1", "a.json", "a.json.json", "a.raw.sage", "a.tmp", "a.meta",
		"\n", "a\nb", "\t", "\r", "\x01", "\x1f", "\x7f", "a b", "a+b", "a=b", "a,b", "0", "00", "-0", "null", "true",
		"é", "e\u0301", "ß", "ẞ", "SS", "ss", "İ", "i", "I", "ı", "K", "\u212a", "Å", "\u212b", "日本語", "😀", "😀/😀", "👩‍👩‍👧",
		"\u2028", "\u202e", "\ufeff", "\ufffd", "\u200b", "\U0010ffff",
		strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("y", 300), strings.Repeat("y", 300) + "/a",
		strings.Repeat("z", tiers.MaxKey), strings.Repeat("Z", tiers.MaxKey), strings.Repeat("z", tiers.MaxKey-1),
		strings.Repeat("😀", tiers.MaxKey/4), strings.Repeat("%", tiers.MaxKey), strings.Repeat("a/", tiers.MaxKey/2),
		strings.Repeat("../", 300) + "etc/passwd", strings.Repeat(".", tiers.MaxKey), strings.Repeat("/", tiers.MaxKey),
	}
}

func badKeysAreRefused(t *T) {
	good := named("k")
	for _, c := range []struct {
		why  string
		k    tiers.Key
		want error
	}{
		{"an empty key", named(""), tiers.ErrKey},
		{"a key of one byte too much", named(strings.Repeat("x", tiers.MaxKey+1)), tiers.ErrKey},
		{"a NUL byte", named("a\x00b"), tiers.ErrKey},
		{"invalid UTF-8", named("a\xffb"), tiers.ErrKey},
		{"a surrogate half", named("\xed\xa0\x80"), tiers.ErrKey},
		{"an empty category", tiers.Key{Name: "k"}, tiers.ErrCategory},
		{"a category that climbs", tiers.Key{Category: "..", Name: "k"}, tiers.ErrCategory},
		{"a category with a slash", tiers.Key{Category: "a/b", Name: "k"}, tiers.ErrCategory},
		{"a category with an empty segment", tiers.Key{Category: "a..b", Name: "k"}, tiers.ErrCategory},
		{"a category that ends in a dot", tiers.Key{Category: "a.", Name: "k"}, tiers.ErrCategory},
		{"a category with a space", tiers.Key{Category: "a b", Name: "k"}, tiers.ErrCategory},
		{"too long a category", tiers.Key{Category: strings.Repeat("c", tiers.MaxCategory+1), Name: "k"}, tiers.ErrCategory},
		{"a namespace in capitals", tiers.Key{Namespace: "N", Category: category, Name: "k"}, tiers.ErrKey},
		{"a namespace that climbs", tiers.Key{Namespace: "..", Category: category, Name: "k"}, tiers.ErrKey},
		{"too long a namespace", tiers.Key{Namespace: strings.Repeat("n", tiers.MaxNamespace+1), Category: category, Name: "k"}, tiers.ErrKey},
	} {
		_, err := t.Tier.Save(t.ctx, raw(c.k, "v"), tiers.Cond{})
		t.wantError(c.why+": save", err, c.want)
		_, err = t.Tier.Load(t.ctx, c.k)
		t.wantError(c.why+": load", err, c.want)
		_, err = t.Tier.Delete(t.ctx, c.k, tiers.Cond{})
		t.wantError(c.why+": delete", err, c.want)
		_, err = tiers.Exists(t.ctx, t.Tier, c.k)
		t.wantError(c.why+": exists", err, c.want)
		_, err = tiers.LoadMany(t.ctx, t.Tier, []tiers.Key{c.k})
		t.wantError(c.why+": load many", err, c.want)
		_, err = tiers.SaveMany(t.ctx, t.Tier, []tiers.Record{raw(c.k, "v")}, nil)
		t.wantError(c.why+": save many", err, c.want)
		_, err = tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{c.k}, nil)
		t.wantError(c.why+": delete many", err, c.want)
		if t.has(Toucher) {
			_, err = tiers.Touch(t.ctx, t.Tier, c.k, time.Hour)
			t.wantError(c.why+": touch", err, c.want)
		}
		if a, ok := tiers.As[tiers.Applier](t.Tier); ok {
			r := t.applied("k", 1, "v")
			r.Key = c.k
			t.wantError(c.why+": apply", a.Apply(t.ctx, []tiers.Record{r}, nil), c.want)
		}
		for r, err := range t.Tier.List(t.ctx, tiers.Query{Namespace: c.k.Namespace, Category: c.k.Category}) {
			if err == nil {
				t.Errorf("%s: the list yields %s", c.why, show(r.Key))
			}
		}
	}
	t.save(raw(good, "v"))
	t.wantNames("list", t.names(tiers.Query{Category: category}), []string{"k"})
}

func spacesKeepApart(t *T) {
	spaces := []tiers.Space{
		{Category: "a"},
		{Category: "A"},
		{Category: "a-b"},
		{Category: "a.b"},
		{Category: "a.b.c"},
		{Category: "a_b"},
		{Category: "ab"},
		{Category: strings.Repeat("c", tiers.MaxCategory)},
		{Namespace: "a", Category: "a"},
		{Namespace: "a", Category: "b"},
		{Namespace: "a-b", Category: "a"},
		{Namespace: "a_b", Category: "a"},
		{Namespace: "ab", Category: "a"},
		{Namespace: strings.Repeat("n", tiers.MaxNamespace), Category: "a"},
	}
	names := []string{"a", "b", "b.c", "k"}
	key := func(s tiers.Space, name string) tiers.Key {
		return tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: name}
	}
	value := func(k tiers.Key) string { return k.Namespace + "|" + k.Category + "|" + k.Name }
	for _, s := range spaces {
		for _, n := range names {
			t.save(raw(key(s, n), value(key(s, n))))
		}
	}
	for _, s := range spaces {
		got := t.list(tiers.Query{Namespace: s.Namespace, Category: s.Category})
		t.wantNames("list of "+show(key(s, "*")), namesOf(got), names)
		for _, r := range got {
			if r.Space() != s {
				t.Errorf("the list of %v yields a record of %v", s, r.Space())
			}
		}
		for _, n := range names {
			t.wantValue("saved", key(s, n), value(key(s, n)))
		}
	}
	if got := t.spaces(); !slices.Equal(got, inOrder(spaces)) {
		t.Errorf("spaces yields %v, want %v", got, inOrder(spaces))
	}
	for _, n := range names {
		t.delete(key(spaces[0], n))
	}
	for _, s := range spaces[1:] {
		t.wantNames("list after emptying another, of "+show(key(s, "*")), t.names(tiers.Query{Namespace: s.Namespace, Category: s.Category}), names)
	}
	if got := t.spaces(); !slices.Equal(got, inOrder(spaces[1:])) {
		t.Errorf("after emptying one, spaces yields %v, want %v", got, inOrder(spaces[1:]))
	}
}

func inOrder(spaces []tiers.Space) []tiers.Space {
	sorted := slices.Clone(spaces)
	slices.SortFunc(sorted, func(a, b tiers.Space) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Category, b.Category)
	})
	return sorted
}
