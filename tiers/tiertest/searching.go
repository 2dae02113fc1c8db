package tiertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func searchRules() []rule {
	needs := []Capability{Searcher}
	return []rule{
		{
			name: "the text for the index is never loaded",
			why:  "it is not a part of the record, and what can't search does not even keep it",
			run:  textIsNotLoaded,
		},
		{
			name: "a search finds what has all the words and the part", needs: needs,
			why: "that is what it is for, within the space and the prefix that it names",
			run: findsWhatIsLookedFor,
		},
		{
			name: "the text goes with the record", needs: needs,
			why: "what was deleted, has expired or says something else now must not be found",
			run: textGoesWithTheRecord,
		},
		{
			name: "a refused save leaves the text as it is", needs: needs,
			why: "a failed condition changes nothing",
			run: refusedSaveLeavesText,
		},
		{
			name: "nothing of an encrypted record is indexed", needs: needs,
			why: "an index is readable by whoever reads the disk",
			run: encryptedIsNotIndexed,
		},
		{
			name: "records without a text are named and can get one", needs: needs,
			why: "what came by another way than a save with a text is found as well then",
			run: textComesLater,
		},
		{
			name: "any text can be looked for, and no bad one is stored", needs: needs,
			why: "people search for quotes, stars and words of query languages",
			run: anyTextCanBeSearched,
		},
		{
			name: "a search is what a plain look at the texts is", needs: needs,
			why: "whatever was saved, deleted and applied in whatever order",
			run: searchIsAsAMap,
		},
		{
			name: "the best are found first", needs: []Capability{TopSearcher},
			why: "who has found enough stops, and must not miss a better one",
			run: bestAreFirst,
		},
		{
			name: "texts survive a restart", needs: needs, when: durable,
			why: "they are as durable as the records",
			run: func(t *T) {
				t.save(indexed(named("k"), "apple pie"))
				if err := t.Tier.Close(t.ctx); err != nil {
					t.Fatalf("close: %v", err)
				}
				t.Tier = t.Open()
				t.wantFound("reopened", tiers.Search{Category: category, Words: []string{"pie"}}, "k")
			},
		},
		{
			name: "a search ends with its context and with the tier", needs: needs,
			why: "as everything does",
			run: searchEnds,
		},
	}
}

// indexed is a record with a text that is its value as well; the words are cut at
// spaces.
func indexed(k tiers.Key, text string) tiers.Record {
	r := raw(k, text)
	r.Index = &tiers.IndexText{Words: strings.Fields(text), Text: text}
	return r
}

func (t *T) searcher() tiers.Searcher {
	s, _ := tiers.As[tiers.Searcher](t.Tier)
	return s
}

// found answers the names, in order.
func (t *T) found(s tiers.Search) (names []string) {
	for f, err := range t.searcher().Search(t.ctx, s) {
		if err != nil {
			t.Fatalf("search %+v: %v", s, err)
		}
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// wantFound is for parts that nothing else has the characters of.
func (t *T) wantFound(when string, s tiers.Search, want ...string) {
	t.wantNames(fmt.Sprintf("%s: search for %q and %q", when, s.Words, s.Part), t.found(s), want)
}

func words(words ...string) tiers.Search { return tiers.Search{Category: category, Words: words} }

func part(text string) tiers.Search { return tiers.Search{Category: category, Part: text} }

func textIsNotLoaded(t *T) {
	k := named("k")
	t.save(indexed(k, "apple pie"))
	all := append(t.list(tiers.Query{Category: category}), t.load(k))
	if _, err := tiers.SaveMany(t.ctx, t.Tier, []tiers.Record{indexed(named("other"), "plum")}, nil); err != nil {
		t.Fatalf("save many: %v", err)
	}
	loaded, err := tiers.LoadMany(t.ctx, t.Tier, []tiers.Key{k, named("other")})
	if err != nil {
		t.Fatalf("load many: %v", err)
	}
	for _, r := range slices.Concat(all, loaded) {
		if r.Index != nil {
			t.Errorf("%s comes with the text %+v", show(r.Key), *r.Index)
		}
	}
	t.wantValue("saved with a text", k, "apple pie")
}

func findsWhatIsLookedFor(t *T) {
	t.save(indexed(named("a/1"), "apple pie"))
	t.save(indexed(named("a/2"), "apple tart"))
	t.save(indexed(named("b/1"), "plum pie"))
	t.save(indexed(named("b/2"), "中文 überall"))
	t.save(raw(named("b/3"), "apple pie"))
	t.save(indexed(tiers.Key{Namespace: "n", Category: category, Name: "a/1"}, "apple pie"))
	t.save(indexed(tiers.Key{Category: category + "2", Name: "a/1"}, "apple pie"))
	t.wantFound("one word", words("apple"), "a/1", "a/2")
	t.wantFound("all words", words("apple", "pie"), "a/1")
	t.wantFound("one word too many", words("apple", "plum"))
	t.wantFound("no whole word", words("appl"))
	t.wantFound("beyond ASCII", words("中文"), "b/2")
	t.wantFound("a part", part("ple p"), "a/1")
	t.wantFound("three characters", part("pie"), "a/1", "b/1")
	t.wantFound("characters, not bytes", part(" üb"), "b/2")
	t.wantFound("case is another", part("PIE"))
	t.wantFound("both", tiers.Search{Category: category, Words: []string{"pie"}, Part: "plum"}, "b/1")
	t.wantFound("a prefix", tiers.Search{Category: category, Prefix: "a/", Words: []string{"pie"}}, "a/1")
	t.wantFound("another namespace", tiers.Search{Namespace: "n", Category: category, Words: []string{"pie"}}, "a/1")
	for f, err := range t.searcher().Search(t.ctx, words("plum")) {
		if want := t.load(named("b/1")).Version; err != nil || f.Version != want {
			t.Errorf("the search answers version %d and %s, want %d", f.Version, said(err), want)
		}
	}
}

func textGoesWithTheRecord(t *T) {
	apple, k := words("apple"), named("k")
	for _, way := range []struct {
		name string
		do   func()
		want []string
	}{
		{"deleted", func() { t.delete(k) }, nil},
		{"saved without a text", func() { t.save(raw(k, "other")) }, nil},
		{"saved twice without a text", func() { t.save(raw(k, "other")); t.save(raw(k, "more")) }, nil},
		{"saved with another text", func() { t.save(indexed(k, "plum")) }, nil},
		{"saved with the same text", func() { t.save(indexed(k, "apple")) }, []string{"k"}},
		{"saved gone", func() { t.save(lasting(k, "x", -1)) }, nil},
		{"deleted and made anew", func() { t.delete(k); t.save(raw(k, "v")); t.save(raw(named("k2"), "v")) }, nil},
		{"expired", func() {
			r := indexed(k, "apple")
			r.TTL = t.short()
			t.save(r)
			t.expire(k)
		}, nil},
		{"expired and swept", func() {
			r := indexed(k, "apple")
			r.TTL = t.short()
			t.save(r)
			t.expire(k)
			if s, ok := tiers.As[tiers.Sweeper](t.Tier); ok {
				if _, err := s.Sweep(t.ctx, 100); err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
		}, nil},
		{"expired and made anew", func() {
			r := indexed(k, "apple")
			r.TTL = t.short()
			t.save(r)
			t.expire(k)
			if _, err := t.Tier.Save(t.ctx, raw(k, "v"), tiers.If(0)); err != nil {
				t.Errorf("save if absent: %v", err)
			}
		}, nil},
		{"touched", func() {
			if _, err := tiers.Touch(t.ctx, t.Tier, k, time.Hour); err != nil && !errors.Is(err, tiers.ErrUnsupported) {
				t.Errorf("touch: %v", err)
			}
		}, []string{"k"}},
		{"deleted among others", func() {
			if _, err := tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{k, named("nothing")}, nil); err != nil {
				t.Errorf("delete many: %v", err)
			}
		}, nil},
		{"saved among others", func() {
			if _, err := tiers.SaveMany(t.ctx, t.Tier, []tiers.Record{raw(k, "v"), indexed(named("k2"), "apple")}, nil); err != nil {
				t.Errorf("save many: %v", err)
			}
		}, []string{"k2"}},
		{"applied over without a text", func() { t.applyIf(t.applied("k", 3_600_000_000, "v"), nil) }, nil},
		{"applied over with a text", func() {
			t.applyIf(t.applied("k", 3_600_000_000, "v"), &tiers.IndexText{Words: []string{"plum", "apple"}})
		}, []string{"k"}},
		{"applied over as deleted", func() {
			r := t.applied("k", 3_600_000_000, "")
			r.Deleted = true
			t.applyIf(r, nil)
		}, nil},
	} {
		t.save(indexed(k, "apple"))
		t.wantFound("before "+way.name, apple, "k")
		way.do()
		if strings.HasPrefix(way.name, "applied") && !t.has(Applier) {
			t.delete(k)
			continue
		}
		t.wantFound(way.name, apple, way.want...)
		t.wantFound(way.name, part("apple"), slices.DeleteFunc(slices.Clone(way.want), func(string) bool {
			return strings.HasPrefix(way.name, "applied") // with words only
		})...)
		t.delete(k)
		t.delete(named("k2"))
		t.Clock.Advance(2 * time.Hour) // beyond what was applied
	}
}

// applyIf applies where the tier can.
func (t *T) applyIf(r tiers.Record, text *tiers.IndexText) {
	if t.has(Applier) {
		r.Index = text
		t.apply(nil, r)
	}
}

func refusedSaveLeavesText(t *T) {
	k := named("k")
	saved := t.save(indexed(k, "apple"))
	for name, c := range map[string]tiers.Cond{"if absent": tiers.If(0), "if of another version": tiers.If(saved.Version + 1)} {
		for _, r := range []tiers.Record{raw(k, "v"), indexed(k, "plum")} {
			if _, err := t.Tier.Save(t.ctx, r, c); err == nil {
				t.Errorf("a save %s succeeds", name)
			}
		}
		t.wantFound("refused "+name, words("apple"), "k")
		t.wantFound("refused "+name, words("plum"))
	}
	if _, err := t.Tier.Save(t.ctx, indexed(k, "plum"), tiers.If(saved.Version)); err != nil {
		t.Errorf("a save if of the version: %v", err)
	}
	t.wantFound("saved if of the version", words("apple"))
	t.wantFound("saved if of the version", words("plum"), "k")
}

func encryptedIsNotIndexed(t *T) {
	r := indexed(named("k"), "apple")
	r.Flags = tiers.Enveloped | tiers.Encrypted
	saved := t.save(r)
	t.wantFound("encrypted", words("apple"))
	t.wantFound("encrypted", part("apple"))
	r.Version = saved.Version
	if err := t.searcher().Reindex(t.ctx, []tiers.Record{r}); err != nil {
		t.Errorf("reindex: %v", err)
	}
	t.wantFound("encrypted, and given a text later", words("apple"))
	t.wantUnindexed("encrypted", tiers.Query{Category: category}, "k")
}

func textComesLater(t *T) {
	var all []tiers.Record
	for i := range 5 {
		r := t.save(raw(numbered("k", i), "v"))
		r.Index = &tiers.IndexText{Words: []string{"apple"}, Text: "apple"}
		all = append(all, r)
	}
	t.save(indexed(named("has one"), "plum"))
	t.save(raw(named("other"), "v"))
	t.wantUnindexed("at first", tiers.Query{Category: category, Prefix: "k"}, "k00000", "k00001", "k00002", "k00003", "k00004")
	t.wantUnindexed("some", tiers.Query{Category: category, After: "k00001", Limit: 2}, "k00002", "k00003")
	t.wantUnindexed("the last", tiers.Query{Category: category, Reverse: true, Limit: 2}, "other", "k00004")
	t.save(raw(numbered("k", 1), "a later one"))
	t.delete(numbered("k", 2))
	if err := t.searcher().Reindex(t.ctx, all); err != nil {
		t.Fatalf("reindex: %v", err)
	}
	t.wantFound("given a text", words("apple"), "k00000", "k00003", "k00004")
	t.wantUnindexed("in the end", tiers.Query{Category: category}, "k00001", "other")
	if now := t.load(numbered("k", 0)); now.Version != all[0].Version || !now.Updated.Equal(all[0].Updated) {
		t.Errorf("a text given later changes the record: %+v was %+v", now, all[0])
	}
	all[0].Index = &tiers.IndexText{Words: []string{"pear"}}
	if err := t.searcher().Reindex(t.ctx, all[:1]); err != nil {
		t.Fatalf("reindex: %v", err)
	}
	t.wantFound("given another text", words("apple"), "k00003", "k00004")
	t.wantFound("given another text", words("pear"), "k00000")
	was := t.gaps()
	for _, way := range []struct {
		name string
		do   func()
		here bool
	}{
		{"a save over one with a text", func() { t.save(raw(numbered("k", 0), "v")) }, true},
		{"one that is applied", func() { t.applyIf(t.applied("new", 3_600_000_000, "v"), nil) }, t.has(Applier)},
	} {
		way.do()
		if now := t.gaps(); way.here && now <= was {
			t.Errorf("after %s the number of gaps is %d, and was %d before", way.name, now, was)
		} else {
			was = now
		}
	}
}

func (t *T) gaps() uint64 {
	n, err := t.searcher().Gaps(t.ctx)
	if err != nil {
		t.Fatalf("gaps: %v", err)
	}
	return n
}

func (t *T) wantUnindexed(when string, q tiers.Query, want ...string) {
	var names []string
	for f, err := range t.searcher().Unindexed(t.ctx, q) {
		if err != nil {
			t.Fatalf("unindexed: %v", err)
		}
		names = append(names, f.Name)
	}
	t.wantNames(when+": without a text", names, want)
}

func anyTextCanBeSearched(t *T) {
	awkward := []string{`a'b`, `"xy`, `x"y`, `***`, `AND`, `NOT x`, `NEAR(a b)`, `col:x`, `a^b`, `-x-`, `{x}`, `%__`, "x\ty\n", `\\\`, "🙂🙂🙂", "a\u0301bc"}
	for i, text := range awkward {
		r := raw(numbered("k", i), text)
		r.Index = &tiers.IndexText{Text: text}
		t.save(r)
	}
	for i, text := range awkward {
		if got := t.found(part(text)); !slices.Contains(got, numbered("k", i).Name) {
			t.Errorf("a search for %q finds %v, and not the record that says it", text, got)
		}
	}
	for _, word := range []string{"and", "or", "not", "near", "null", "x"} {
		t.wantFound("no such word", words(word))
	}
	for _, bad := range []tiers.IndexText{
		{Words: []string{"a b"}},
		{Words: []string{""}},
		{Words: []string{"Upper"}},
		{Words: []string{strings.Repeat("x", tiers.MaxIndexWord+1)}},
		{Text: "a\x00b"},
		{Text: "\xff"},
		{Order: -1},
		{Order: tiers.MaxOrder + 1},
		{Words: []string{"a"}, Grades: []uint8{tiers.MaxGrade + 1}},
		{Words: []string{"a", "b"}, Grades: []uint8{1}},
		{Marks: []string{"a b"}},
	} {
		r := raw(named("bad"), "v")
		r.Index = &bad
		if _, err := t.Tier.Save(t.ctx, r, tiers.Cond{}); !errors.Is(err, tiers.ErrType) {
			t.Errorf("a save with the text %+v is %s, want ErrType", bad, said(err))
		}
		t.wantAbsent("saved with a bad text", named("bad"))
	}
	for _, bad := range []tiers.Search{{Category: category}, part("ab"), words("a b"), part("a\x00bc"), {Words: []string{"a"}}} {
		if err := lastError(t.searcher().Search(t.ctx, bad)); err == nil {
			t.Errorf("a search for %+v is no error", bad)
		}
	}
	long := strings.Repeat("long text with words ", 200)
	t.save(indexed(named("long"), long))
	t.wantFound("a long one", part(long), "long")
	t.wantFound("many words", words(strings.Fields(long)...), "long")
}

func searchIsAsAMap(t *T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same program every time
	vocabulary := []string{"ab", "abc", "bcd", "cde", "über", "中文", "12", "x"}
	model := map[string]string{}
	for range 400 {
		k := numbered("k", rng.IntN(12))
		var text []string
		for range rng.IntN(4) {
			text = append(text, vocabulary[rng.IntN(len(vocabulary))])
		}
		r := indexed(k, strings.Join(text, " "))
		switch rng.IntN(8) {
		case 0:
			t.delete(k)
			delete(model, k.Name)
		case 1:
			r.Index = nil
			t.save(r)
			delete(model, k.Name)
		case 2:
			if t.has(Applier) {
				r.Version = t.save(r).Version + 5
				r.Created, r.Updated = tiers.Micro(t.now()), tiers.Micro(t.now())
				t.apply(nil, r)
				model[k.Name] = string(r.Value)
			}
		default:
			t.save(r)
			model[k.Name] = string(r.Value)
		}
		word := vocabulary[rng.IntN(len(vocabulary))]
		var has, contains []string
		for name, text := range model {
			if slices.Contains(strings.Fields(text), word) {
				has = append(has, name)
			}
			if strings.Contains(text, "bc") && strings.Contains(text, "abc") {
				contains = append(contains, name)
			}
		}
		slices.Sort(has)
		slices.Sort(contains)
		t.wantFound("the program", words(word), has...)
		t.wantFound("the program", part("abc"), contains...)
	}
}

func searchEnds(t *T) {
	t.save(indexed(named("k"), "apple"))
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	s := t.searcher()
	if err := lastError(s.Search(ctx, words("apple"))); !errors.Is(err, context.Canceled) {
		t.Errorf("a search whose context is over is %s", said(err))
	}
	if err := t.Tier.Close(t.ctx); err != nil {
		t.Fatalf("close: %v", err)
	}
	for name, err := range map[string]error{
		"search":    lastError(s.Search(t.ctx, words("apple"))),
		"unindexed": lastError(s.Unindexed(t.ctx, tiers.Query{Category: category})),
		"reindex":   s.Reindex(t.ctx, []tiers.Record{{Key: named("k"), Version: 1, Index: &tiers.IndexText{}}}),
	} {
		if !errors.Is(err, tiers.ErrClosed) {
			t.Errorf("%s after close is %s, want ErrClosed", name, said(err))
		}
	}
}
