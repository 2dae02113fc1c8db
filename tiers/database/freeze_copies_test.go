package database

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
)

// frozenCopy answers the path of a copy of a small store and what it was said to hold.
func frozenCopy(t *testing.T) (path string, content tiers.Content) {
	t.Helper()
	tier := openAccounts(t, filepath.Join(t.TempDir(), "sage.db"))
	ctx := t.Context()
	old := plainJSON("expired", `"old"`)
	old.TTL = time.Microsecond
	_, err := tier.Save(ctx, old, tiers.Cond{})
	_, err2 := tier.Save(ctx, tiers.Record{Key: tiers.Key{Namespace: "acme", Category: "a.b", Name: "k"}, Codec: "raw", Schema: 1, Value: []byte{0, 1}}, tiers.Cond{})
	_, err3 := tier.SetFact(ctx, "epoch", []byte("e1"), false)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	f, err := tier.Freeze(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if content, err = f.Content(ctx, "epoch", "absent"); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "copy.db")
	copyTo(t, f, path)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func mustOpenCopy(t *testing.T, path string) tiers.Copy {
	t.Helper()
	c, err := Copies().OpenCopy(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestACopyHoldsWhatTheFrozenStoreSaid(t *testing.T) {
	path, want := frozenCopy(t)
	c := mustOpenCopy(t, path)
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.Content(t.Context(), "epoch", "absent")
	if err != nil {
		t.Fatal(err)
	}
	want.Held = 0
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if want.Facts["epoch"] != "e1" || len(want.Records) != 2 || want.Records[0].Records != 31*accounts+1 {
		t.Errorf("it holds %+v", want)
	}
	n := 0
	for r, err := range c.Records(t.Context(), want.Records[0].Space) {
		if err != nil || len(r.Value) == 0 || r.Codec != "json" {
			t.Fatalf("%+v, %v", r, err)
		}
		n++
	}
	if int64(n) != want.Records[0].Records {
		t.Errorf("%d records, want %d: those that have expired too", n, want.Records[0].Records)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the copy are %v, %v", entries, err)
	}
}

func TestADamagedOrForeignCopyIsRefused(t *testing.T) {
	good, _ := frozenCopy(t)
	pages, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	run := func(statement string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		why    string
		harm   func(t *testing.T, path string)
		want   error
		damage string
	}{
		{"it was cut short", func(t *testing.T, path string) { t.Helper(); write(t, path, pages[:len(pages)/2]) }, tiers.ErrCorrupt, ""},
		{"it is empty", func(t *testing.T, path string) { t.Helper(); write(t, path, nil) }, tiers.ErrCorrupt, ""},
		{"it is no database", func(t *testing.T, path string) {
			t.Helper()
			write(t, path, bytes.Repeat([]byte("x"), 8192))
		}, tiers.ErrCorrupt, ""},
		{"a page is blank", func(t *testing.T, path string) {
			t.Helper()
			write(t, path, append(append([]byte{}, pages[:pageSize]...), make([]byte, len(pages)-pageSize)...))
		}, tiers.ErrCorrupt, ""},
		{"a log is beside it", func(t *testing.T, path string) { t.Helper(); write(t, path+"-wal", []byte("x")) }, tiers.ErrCorrupt, "-wal"},
		{"a trigger would run in it", run("CREATE TRIGGER evil AFTER INSERT ON records BEGIN DELETE FROM facts; END"), tiers.ErrCorrupt, "trigger evil"},
		{"a view hides in it", run("CREATE VIEW evil AS SELECT 1"), tiers.ErrCorrupt, "view evil"},
		{"an index is missing", run("DROP INDEX records_expires"), tiers.ErrCorrupt, "index records_expires"},
		{"a newer version wrote it", run("PRAGMA user_version = 99"), tiers.ErrSchema, "99"},
		{"another application wrote it", run("PRAGMA application_id = 7"), tiers.ErrUnsupported, ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			write(t, path, pages)
			c.harm(t, path)
			d, err := Copies().OpenCopy(t.Context(), path)
			if err == nil {
				err = errors.Join(d.Check(t.Context()), d.Close())
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.damage) {
				t.Errorf("got %v, want %v and %q", err, c.want, c.damage)
			}
		})
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnAdoptedCopyIsAStoreWithItsNewFacts(t *testing.T) {
	path, content := frozenCopy(t)
	if err := Copies().Adopt(t.Context(), path, map[string]string{"epoch": "e2"}); err != nil {
		t.Fatal(err)
	}
	for _, ending := range Copies().Beside() {
		if _, err := os.Stat(path + ending); err == nil {
			t.Errorf("%s was left behind", ending)
		}
	}
	tier := mustOpen(t, Config{Path: path})
	if epoch, err := tier.Fact(t.Context(), "epoch"); err != nil || string(epoch) != "e2" {
		t.Errorf("the epoch is %q, %v", epoch, err)
	}
	r, err := tier.Save(t.Context(), plainJSON("new", strconv.Itoa(1)), tiers.Cond{})
	if err != nil || r.Version <= content.Version {
		t.Errorf("a save gets version %d, %v; want one above %d", r.Version, err, content.Version)
	}
}

func TestAStoreInUseCannotBeSeizedAndASeizedOneNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	if _, err := Copies().Seize(t.Context(), path); !errors.Is(err, tiers.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, tiers.ErrUnavailable)
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release, err := Copies().Seize(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(t.Context(), Config{Path: path}, surroundings{network: networkKind, patience: time.Millisecond})
	if !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("it was opened: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, Config{Path: path}).Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
