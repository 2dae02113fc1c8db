package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func open(t *testing.T, dir string) *file.Tier {
	t.Helper()
	return openAt(t, dir, nil)
}

func openAt(t *testing.T, dir string, clock tiers.Clock) *file.Tier {
	t.Helper()
	tier, err := file.Open(t.Context(), file.Config{BasePath: dir, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tier.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tier
}

func key(name string) tiers.Key { return tiers.Key{Category: "config", Name: name} }

func plain(name, value string) tiers.Record {
	return tiers.Record{Key: key(name), Codec: "json", Schema: 1, Value: []byte(value)}
}

func save(t *testing.T, tier tiers.Tier, r tiers.Record) tiers.Record {
	t.Helper()
	saved, err := tier.Save(t.Context(), r, tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func load(t *testing.T, tier tiers.Tier, name string) tiers.Record {
	t.Helper()
	r, err := tier.Load(t.Context(), key(name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// edit writes a file as an editor does, at a time of its own.
func edit(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	at := tiers.SystemClock().Now().Add(time.Second)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); err == nil && !e.IsDir() && !strings.HasPrefix(rel, ".") {
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJSONIsReadableAndIn0600(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing", "parents")
	tier := open(t, dir)
	save(t, tier, plain("settings", `{"theme":"dark","fonts":["a","b"],"none":{}}`))
	path := filepath.Join(dir, "config", "settings.json")
	want := "{\n  \"theme\": \"dark\",\n  \"fonts\": [\n    \"a\",\n    \"b\"\n  ],\n  \"none\": {}\n}\n"
	if got := read(t, path); got != want {
		t.Errorf("the file holds %s, want %s", got, want)
	}
	if got := string(load(t, tier, "settings").Value); got != `{"theme":"dark","fonts":["a","b"],"none":{}}` {
		t.Errorf("load answers %s", got)
	}
	for p, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700, dir: 0o700} {
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want mode %o", p, fi.Mode().Perm(), err, mode)
		}
	}
	if got := names(t, dir); !cmp.Equal(got, []string{"config/settings.json"}) {
		t.Errorf("files: %v", got)
	}
}

func TestAHandEditIsLoadedWithAHigherVersion(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	saved := save(t, tier, plain("settings", `{"theme":"dark"}`))
	path := filepath.Join(dir, "config", "settings.json")
	edit(t, path, "\xEF\xBB\xBF{ \"theme\" :\t\"light\" }\r\n\n")
	r := load(t, tier, "settings")
	if string(r.Value) != `{"theme":"light"}` || r.Version <= saved.Version {
		t.Errorf("after the edit: %s, version %d; want a version above %d", r.Value, r.Version, saved.Version)
	}
	if _, err := tier.Save(t.Context(), plain("settings", `1`), tiers.If(saved.Version)); !errors.Is(err, tiers.ErrConflict) {
		t.Errorf("a save over the version before the edit: %v, want a conflict", err)
	}
	again := save(t, tier, plain("settings", `2`))
	if again.Version <= r.Version || !again.Created.Equal(r.Created) {
		t.Errorf("saved over the edit: version %d created %v, want above %d and %v", again.Version, again.Created, r.Version, r.Created)
	}
}

func TestABrokenHandEditIsNeverOverwritten(t *testing.T) {
	for _, c := range []struct{ why, text, line string }{
		{"a comma is missing", "{\n  \"a\": 1\n  \"b\": 2\n}\n", ":3:"},
		{"it ends too early", "{\n  \"a\": 1,\n", ":2:"},
		{"it is empty", "", ":1:"},
		{"something follows", "{}\n{}\n", ":2:"},
	} {
		t.Run(c.why, func(t *testing.T) {
			dir := t.TempDir()
			tier := open(t, dir)
			save(t, tier, plain("good", `1`))
			save(t, tier, plain("settings", `{"a":1}`))
			path := filepath.Join(dir, "config", "settings.json")
			edit(t, path, c.text)
			check := func(op string, err error) {
				t.Helper()
				if !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), path+c.line) {
					t.Errorf("%s: %v; want corrupt, naming %s%s", op, err, path, c.line)
				}
				if read(t, path) != c.text {
					t.Errorf("%s changed the file", op)
				}
			}
			_, err := tier.Load(t.Context(), key("settings"))
			check("load", err)
			_, err = tier.Save(t.Context(), plain("settings", `2`), tiers.Cond{})
			check("save", err)
			_, err = tier.SaveMany(t.Context(), []tiers.Record{plain("settings", `2`)}, nil)
			check("save of many", err)
			var bad, good int
			for r, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
				if err != nil && r.Name == "settings" {
					check("list", err)
					bad++
				} else if err == nil {
					good++
				}
			}
			if bad != 1 || good != 1 {
				t.Errorf("the list has %d bad and %d good records", bad, good)
			}
			if existed, err := tier.Delete(t.Context(), key("settings"), tiers.Cond{}); err != nil || !existed {
				t.Errorf("delete, the way out: %v %v", existed, err)
			}
			save(t, tier, plain("settings", `3`))
		})
	}
}

func TestWhatIsDecidedIsAppliedOverABrokenEditWhichIsKept(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("settings", `1`))
	path := filepath.Join(dir, "config", "settings.json")
	edit(t, path, "{broken")
	found, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r := plain("settings", `2`)
	r.Version = tiers.Version(found.ModTime().UnixMicro() + 10)
	if err := tier.Apply(t.Context(), []tiers.Record{r}, nil); err != nil {
		t.Fatal(err)
	}
	if got := string(load(t, tier, "settings").Value); got != `2` {
		t.Errorf("load answers %s", got)
	}
	kept, _ := filepath.Glob(path + ".edited-*")
	if len(kept) != 1 || read(t, kept[0]) != "{broken" {
		t.Errorf("kept: %v", kept)
	}
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
		if err != nil || r.Name != "settings" {
			t.Errorf("a kept edit is listed: %v %v", r.Name, err)
		}
	}
	reported := false
	for _, f := range tier.Diagnose(t.Context()) {
		reported = reported || f.Subject == "kept edits" && !f.OK && strings.Contains(f.Message, kept[0])
	}
	if !reported {
		t.Error("the kept edit is not reported")
	}
}

func TestFilesDroppedInAreFound(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	edit(t, filepath.Join(dir, "config", "a", "%C3%9Cber.json"), "{ \"x\": 1 }")
	edit(t, filepath.Join(dir, "@acme", "config", "k.json"), "2")
	if got := string(load(t, tier, "a/Über").Value); got != `{"x":1}` {
		t.Errorf("load answers %s", got)
	}
	var got []tiers.Key
	for s, err := range tier.Spaces(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range tier.List(t.Context(), tiers.Query{Namespace: s.Namespace, Category: s.Category}) {
			if err != nil {
				t.Error(err)
			}
			got = append(got, r.Key)
		}
	}
	want := []tiers.Key{{Category: "config", Name: "a/Über"}, {Namespace: "acme", Category: "config", Name: "k"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAFileWithTheWrongNameIsOneErrorThatNamesTheRightOne(t *testing.T) {
	for _, c := range []struct{ file, right string }{
		{"Settings.json", "%53ettings.json"},
		{"a b.json", "a%20b.json"},
		{"%2f.json", "%2F.json"},
		{"notes.txt", "notes.txt.json"},
		{"x.unknown.sage", ""},
		{"Dir/k.json", "%44ir/k.json"},
	} {
		t.Run(c.file, func(t *testing.T) {
			dir := t.TempDir()
			tier := open(t, dir)
			save(t, tier, plain("good", `1`))
			edit(t, filepath.Join(dir, "config", c.file), "1")
			var errs []error
			good := 0
			for r, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
				if err == nil {
					good++
					continue
				}
				if r.Name == "" {
					t.Errorf("the error has no key and ends the list: %v", err)
				}
				errs = append(errs, err)
			}
			if good != 1 || len(errs) != 1 {
				t.Fatalf("%d records and the errors %v; want one of each", good, errs)
			}
			if c.right != "" && !strings.Contains(errs[0].Error(), filepath.Join(dir, "config", c.right)) {
				t.Errorf("%v does not name %s", errs[0], c.right)
			}
		})
	}
}

func TestDotNamesAndTempFilesAreNoRecords(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("k", `1`))
	for _, name := range []string{".hidden.json", ".tmp-07-abc-1", "k.json.edited-17", ".#k.json"} {
		edit(t, filepath.Join(dir, "config", name), "1")
	}
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
		if err != nil || r.Name != "k" {
			t.Errorf("listed: %q %v", r.Name, err)
		}
	}
	if _, err := tier.Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	want := []string{"config/.#k.json", "config/.hidden.json", "config/k.json", "config/k.json.edited-17"}
	if d := cmp.Diff(want, names(t, dir)); d != "" {
		t.Errorf("after the sweep: %s", d)
	}
}

func TestAHandEditKeepsExpiryAndCreation(t *testing.T) {
	dir := t.TempDir()
	clock := tiertest.NewClock(tiers.SystemClock().Now())
	tier := openAt(t, dir, clock)
	r := plain("k", `1`)
	r.TTL, r.Schema = time.Hour, 7
	saved := save(t, tier, r)
	edit(t, filepath.Join(dir, "config", "k.json"), "2")
	got := load(t, tier, "k")
	if string(got.Value) != "2" || !got.Expires.Equal(saved.Expires) || got.Schema != 7 {
		t.Errorf("after the edit: %+v, want the expiry and the schema of %+v", got, saved)
	}
	clock.Advance(2 * time.Hour)
	if _, err := tier.Load(t.Context(), key("k")); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("after its time: %v", err)
	}
	if n, err := tier.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("sweep: %d %v", n, err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}
