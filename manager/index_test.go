package manager_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func text(words ...string) tiers.IndexText { return tiers.IndexText{Words: words, Text: words[0]} }

func index(t *testing.T, c *manager.Collection[string]) *manager.Index {
	t.Helper()
	x, ok := c.Index()
	if !ok {
		t.Fatal("the category has no index")
	}
	return x
}

func wantKeys(t *testing.T, when string, found []tiers.Found, want ...string) {
	t.Helper()
	var got []string
	for _, f := range found {
		got = append(got, f.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", when, got, want)
	}
}

func TestEntriesAreFoundByTheTextTheyWereSavedWith(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openEmbedded(t)
	c := manager.For[string](m, "session.preferences")
	x := index(t, c)
	must(t, c.Save(ctx, "alone", "v", manager.Indexed(text("apple"))))
	must(t, c.SaveMany(ctx, map[string]string{"many/1": "v", "many/2": "v"}, manager.Indexed(text("apple"))))
	value[string](t)(c.Modify(ctx, "modified", func(v *string, _ bool) error { *v = "v"; return nil }, manager.Indexed(text("apple"))))
	elsewhere := manager.For[string](m.Namespace("n"), "session.preferences")
	must(t, elsewhere.Save(ctx, "other", "v", manager.Indexed(text("apple"))))
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		must(t, manager.For[string](tx, "session.context").Save(ctx, "s/1", "v", manager.Indexed(text("apple"))))
		must(t, c.In(tx).Save(ctx, "committed", "v", manager.Indexed(text("apple"))))
		return c.In(tx).Save(ctx, "many/2", "another one")
	}))
	apple := tiers.Search{Words: []string{"apple"}}
	wantKeys(t, "search", value[[]tiers.Found](t)(x.Search(ctx, apple)), "alone", "committed", "many/1", "modified")
	wantKeys(t, "another namespace", value[[]tiers.Found](t)(index(t, elsewhere).Search(ctx, apple)), "other")
	missing := value[[]tiers.Found](t)(x.Missing(ctx, "many/", "", 10))
	wantKeys(t, "without a text", missing, "many/2")
	must(t, x.Add(ctx, manager.Text{Key: "many/2", Version: missing[0].Version, Text: text("pear")}))
	wantKeys(t, "given a text", value[[]tiers.Found](t)(x.Search(ctx, tiers.Search{Words: []string{"pear"}})), "many/2")
	if _, err := x.Search(ctx, tiers.Search{}); err == nil {
		t.Error("a search for nothing is an error")
	}
	if err := c.Save(ctx, "bad", "v", manager.Indexed(text("not one word"))); !errors.Is(err, tiers.ErrType) {
		t.Errorf("a bad text: %v", err)
	}
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		if _, ok := c.In(tx).Index(); ok {
			t.Error("a transaction has no index: it would not show what the transaction wrote")
		}
		return nil
	}))
	if _, ok := manager.For[string](m, "session.context").Index(); ok {
		t.Error("memory has no index")
	}
}

func TestNothingOfAnEncryptedCategoryIsIndexed(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	cfg := &config.Config{
		DataDir:    dir,
		Encryption: config.Encryption{Current: "k1", Keys: map[string]config.Secret{"k1": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}},
		Categories: map[string]config.Category{"app.secret": {Tier: "database", Encrypt: new(true)}},
	}
	m := sagetest.OpenWith(t, cfg, all())
	c := manager.For[string](m, "app.secret")
	must(t, c.Save(ctx, "k", "v", manager.Indexed(text("rumpelstilzchen"))))
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		return c.In(tx).Save(ctx, "k2", "v", manager.Indexed(text("rumpelstilzchen")))
	}))
	if _, ok := c.Index(); ok {
		t.Error("a category that encrypts has an index")
	}
	closeNow(t, m)
	for _, path := range value[[]string](t)(filepath.Glob(filepath.Join(dir, "*"))) {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("rum")) {
			t.Errorf("%s holds a part of the text", path)
		}
	}
}
