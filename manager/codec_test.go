package manager_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

func TestCategoryWithoutACodecIsTextThatSQLiteCanQuery(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := openDir(t, dir)
	prefs := manager.For[preferences](m, "session.preferences")
	must(t, prefs.Save(ctx, "u1", preferences{Theme: "dark", Font: 12}))
	must(t, prefs.Save(ctx, "u2", preferences{Theme: "light", Extra: map[string]any{"n": int64(9007199254740993)}}))
	closeNow(t, m)
	db := value[*sql.DB](t)(sql.Open("sqlite", filepath.Join(dir, "sage.db")))
	defer func() { must(t, db.Close()) }()
	var key, text string
	row := db.QueryRowContext(ctx, `SELECT key, value FROM records
		WHERE category = 'session.preferences' AND json_extract(value, '$.theme') = 'light' AND typeof(value) = 'text'`)
	must(t, row.Scan(&key, &text))
	if key != "u2" || text != `{"theme":"light","font":0,"extra":{"n":9007199254740993}}` {
		t.Errorf("%s holds %s", key, text)
	}
}

func TestCodecOfACategoryCanBeChanged(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	want := map[string]any{}
	for i := range 30 {
		want[fmt.Sprintf("setting %d", i)] = map[string]any{"enabled": true, "level": int64(100_000 + i), "ratio": 1.5, "none": nil}
	}
	for _, home := range []string{"database", "file", "cache"} {
		open := func(codec string) *manager.Manager {
			return value[*manager.Manager](t)(manager.Open(ctx, &config.Config{
				DataDir: dir, Categories: map[string]config.Category{"app." + home: {Tier: home, Codec: codec}},
			}, all()))
		}
		m := open("msgpack")
		packed := value[manager.Item](t)(m.SaveItem(ctx, "app."+home, "old", want))
		closeNow(t, m)

		m = open("json")
		c := manager.For[map[string]any](m, "app."+home)
		text := value[manager.Item](t)(m.SaveItem(ctx, "app."+home, "new", want))
		if packed.Codec != "msgpack" || text.Codec != "json" || packed.Size() >= text.Size() {
			t.Errorf("%s: %d bytes of %s, %d bytes of %s", home, packed.Size(), packed.Codec, text.Size(), text.Codec)
		}
		for _, key := range []string{"old", "new"} {
			if got := value[map[string]any](t)(c.Load(ctx, key)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s loads as %v", home, key, got)
			}
		}
		if i := value[manager.Item](t)(m.Item(ctx, "app."+home, "old")); i.Codec != "msgpack" {
			t.Errorf("%s: the old record was changed to %s", home, i.Codec)
		}
		must(t, c.Save(ctx, "old", want)) // saved again, it follows the category
		if i := value[manager.Item](t)(m.Item(ctx, "app."+home, "old")); i.Codec != "json" {
			t.Errorf("%s: saved again as %s", home, i.Codec)
		}
		if got := keysOf(t, c); len(got) != 2 {
			t.Errorf("%s: listed %q", home, got)
		}
		closeNow(t, m)
	}
}

// reversed is a codec of an app's own: text, backwards.
type reversed struct{}

var _ serializer.Codec = reversed{}

func (reversed) Name() string { return "reversed" }

func (reversed) Append(dst []byte, v any) ([]byte, error) {
	if p, ok := v.(*string); ok {
		v = *p
	}
	return append(dst, turned(v.(string))...), nil
}

func (reversed) Decode(b []byte, into any) error {
	*into.(*string) = turned(string(b))
	return nil
}

func turned(s string) string {
	b := []byte(s)
	for i := range len(b) / 2 {
		b[i], b[len(b)-1-i] = b[len(b)-1-i], b[i]
	}
	return string(b)
}

func TestUnknownCodecIsNamedAndNeverAnEmptyValue(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	cfg := func(codec string) *config.Config {
		return &config.Config{DataDir: dir, Categories: map[string]config.Category{"app.notes": {Tier: "database", Codec: codec}}}
	}
	_, err := manager.Open(ctx, cfg("mspack"), all())
	if !contains(err, `"mspack"`) || !contains(err, `"msgpack"`) {
		t.Errorf("open does not name it and the nearest: %v", err)
	}
	m := value[*manager.Manager](t)(manager.Open(ctx, cfg("reversed"), all(), manager.WithCodec(reversed{})))
	c := manager.For[string](m, "app.notes")
	must(t, c.Save(ctx, "k", "abc"))
	if got := value[string](t)(c.Load(ctx, "k")); got != "abc" {
		t.Errorf("loaded %q", got)
	}
	err = m.Save(ctx, "app.notes", "k", manager.Encoded{Codec: "mspack", Value: []byte("x")})
	wantError(t, err, tiers.ErrCodec, "in a call")
	if e := asError(t, err); !contains(err, `"mspack"`) || !contains(err, `"msgpack"`) || e.Category != "app.notes" || e.Key != "k" {
		t.Errorf("in a call, it does not name it and the nearest: %v", err)
	}
	lib := manager.For[string](m, "lib.notes", manager.Policy(config.Category{Tier: "database", Codec: "mspack"}))
	if err := lib.Save(ctx, "k", "v"); !contains(err, `"mspack"`) || !contains(err, `"msgpack"`) {
		t.Errorf("of a library, it does not name it and the nearest: %v", err)
	}
	closeNow(t, m)

	m = value[*manager.Manager](t)(manager.Open(ctx, cfg("json"), all())) // a program without the codec
	defer closeNow(t, m)
	c = manager.For[string](m, "app.notes")
	must(t, c.Save(ctx, "other", "v"))
	got, err := c.Load(ctx, "k")
	wantError(t, err, tiers.ErrCodec, "load")
	if e := asError(t, err); got != "" || !contains(err, "reversed") || e.Key != "k" || e.Category != "app.notes" || e.Hint == "" {
		t.Errorf("load answers %q, %v", got, err)
	}
	var untyped any
	wantError(t, m.Load(ctx, "app.notes", "k", &untyped), tiers.ErrCodec, "untyped load")
	if untyped != nil {
		t.Errorf("the untyped load answers %v", untyped)
	}
	_, err = c.Fetch(ctx, "k", nil)
	wantError(t, err, tiers.ErrCodec, "fetch")
	_, err = c.LoadOr(ctx, "k", "default")
	wantError(t, err, tiers.ErrCodec, "load or")
	_, err = c.Modify(ctx, "k", func(s *string, _ bool) error { *s = "overwritten"; return nil })
	wantError(t, err, tiers.ErrCodec, "modify")
	found, err := c.LoadMany(ctx, "k", "other")
	wantError(t, err, tiers.ErrCodec, "load many")
	if len(found) != 1 || found["other"] != "v" {
		t.Errorf("load many answers %v", found)
	}
	for e, err := range c.List(ctx) {
		if unreadable := e.Key == "k"; unreadable != (err != nil) {
			t.Errorf("listed %+v, %v", e, err)
		}
	}
}

func TestGobStoresOnlyWhatWouldLoadEqual(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := config.InMemory()
	cfg.Categories = map[string]config.Category{"app.gob": {Codec: "gob"}}
	m := sagetest.OpenWith(t, cfg, all())
	type note struct {
		Title string
		Tags  []string
		Stars *int
		Extra any
	}
	type unregistered struct{ N int }
	c := manager.For[note](m, "app.gob")
	three, none := 3, 0
	want := note{Title: "t", Tags: []string{"a", "b"}, Stars: &three, Extra: "text"}
	must(t, c.Save(ctx, "k", want))
	if got := value[note](t)(c.Load(ctx, "k")); !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v", got)
	}
	for _, bad := range []struct {
		why, path string
		v         note
	}{
		{"an empty list", "tags", note{Tags: []string{}}},
		{"a pointer to zero", "stars", note{Stars: &none}},
		{"an unregistered dynamic type", "extra", note{Extra: unregistered{1}}},
	} {
		err := c.Save(ctx, "k", bad.v)
		wantError(t, err, tiers.ErrType, bad.why)
		if !strings.Contains(strings.ToLower(fmt.Sprint(err)), "field "+bad.path) {
			t.Errorf("%s: %v does not name the field", bad.why, err)
		}
	}
	if got := value[note](t)(c.Load(ctx, "k")); !reflect.DeepEqual(got, want) {
		t.Errorf("a refused save changed it to %+v", got)
	}
	pickle := []byte("\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.")
	must(t, m.Save(ctx, "app.gob", "pickle", manager.Encoded{Codec: "gob", Value: pickle}))
	got, err := c.Load(ctx, "pickle")
	if err == nil || !strings.Contains(err.Error(), "pickle") || !reflect.DeepEqual(got, note{}) {
		t.Errorf("a pickle loads as %+v, %v", got, err)
	}
}
