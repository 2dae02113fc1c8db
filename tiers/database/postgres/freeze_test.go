package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestFreezing(t *testing.T) {
	t.Parallel()
	tiertest.RunFreezer(t, tiertest.Config{Open: opener(t, false, false), Durable: true, Shared: true}, Copies(), nil)
}

func must[V any](t *testing.T) func(v V, err error) V {
	t.Helper()
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// full answers a store with something in every table.
func full(t *testing.T) *Tier {
	t.Helper()
	ctx, s := t.Context(), open1(t, shared(t))
	for i := range 300 {
		for _, ns := range []string{"", "acme"} {
			_, err := s.Save(ctx, tiers.Record{
				Key: tiers.Key{Namespace: ns, Category: "a.b", Name: fmt.Sprintf("k\t\n\\-%03d", i)}, Codec: "json", Schema: 1,
				Value: fmt.Appendf(nil, `{"n":%d,"text":"a\tb\\N"}`, i), Index: &tiers.IndexText{Words: []string{"word"}, Text: "some text"},
			}, tiers.Cond{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must[tiers.Record](t)(s.Save(ctx, tiers.Record{Key: tiers.Key{Category: "c", Name: "binary"}, Codec: "raw", Value: []byte{0, 255, '\n', '\\'}, TTL: 1 << 50}, tiers.Cond{}))
	must[[]byte](t)(s.SetFact(ctx, "epoch", []byte("e1"), false))
	must[[]byte](t)(s.SetFact(ctx, "tab\tand\\", []byte{0, 1}, false))
	must[tiers.Session](t)(s.StartSession(ctx, "acme", "s"))
	rows := must[[]tiers.Row](t)(s.Append(ctx, []tiers.Row{
		{Record: tiers.Record{Key: tiers.Key{Category: "a.b", Name: "r1"}, Codec: "json", Value: []byte("1")}, Tier: "cache", Over: tiers.If(3)},
		{Record: tiers.Record{Key: tiers.Key{Category: "a.b", Name: "r2"}, Deleted: true}, Tier: "file"},
	}, nil, 0))
	if err := s.Done(ctx, rows[1:]); err != nil {
		t.Fatal(err)
	}
	must[tiers.Committed](t)(s.Commit(ctx, tiers.Commit{ID: "t1", Saves: []tiers.Record{{Key: tiers.Key{Category: "c", Name: "d"}, Codec: "json", Value: []byte("2")}}}))
	return s
}

// copyOf answers the path of a copy of the store, and what it was said to hold.
func copyOf(t *testing.T, s *Tier) (path string, content tiers.Content) {
	t.Helper()
	f := must[tiers.Frozen](t)(s.Freeze(t.Context(), nil))
	defer func() { _ = f.Close() }()
	content = must[tiers.Content](t)(f.Content(t.Context(), "epoch", "absent"))
	var b bytes.Buffer
	if err := f.Copy(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestLoadedCopyIsTheStoreAgain(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), full(t)
	path, said := copyOf(t, s)
	list := func(s *Tier) (all []tiers.Record) {
		for sp, err := range s.Spaces(ctx) {
			must[tiers.Space](t)(sp, err)
			for r, err := range s.List(ctx, tiers.Query{Namespace: sp.Namespace, Category: sp.Category}) {
				all = append(all, must[tiers.Record](t)(r, err))
			}
		}
		return all
	}
	want, marks := list(s), must[tiers.Marks](t)(s.Marks(ctx))
	queue := must[[]tiers.Row](t)(s.Queue(ctx, 0, 10))
	if said.Facts["epoch"] != "e1" || said.Rows["journal"] != 1 || said.Rows["recent"] != 1 || said.Rows["commits"] != 1 || said.Held <= 0 {
		t.Errorf("the frozen store says %+v", said)
	}
	if err := Copies().Adopt(ctx, path, map[string]string{"epoch": "e2", "a\tnew": "fact"}); err != nil {
		t.Fatal(err)
	}
	must[bool](t)(s.Delete(ctx, tiers.Key{Category: "c", Name: "d"}, tiers.Cond{}))
	must[tiers.Session](t)(s.StartSession(ctx, "acme", "since"))
	replaced := must[string](t)(s.LoadCopy(ctx, path, "epoch"))
	if replaced == "" {
		t.Fatal("nothing was loaded")
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open1(t, s.config)
	if d := cmp.Diff(want, list(s)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(queue, must[[]tiers.Row](t)(s.Queue(ctx, 0, 10)), cmp.AllowUnexported(tiers.Cond{})); d != "" {
		t.Error(d)
	}
	if got := must[tiers.Marks](t)(s.Marks(ctx)); !cmp.Equal(got, marks) {
		t.Errorf("the marks are %+v, not %+v", got, marks)
	}
	for name, value := range map[string]string{"epoch": "e2", "a\tnew": "fact", "tab\tand\\": "\x00\x01"} {
		if got := must[[]byte](t)(s.Fact(ctx, name)); string(got) != value {
			t.Errorf("the fact %q is %q", name, got)
		}
	}
	if got := must[bool](t)(s.Outcome(ctx, "t1")); !got {
		t.Error("the transaction was forgotten")
	}
	if again := must[string](t)(s.LoadCopy(ctx, path, "epoch")); again != "" {
		t.Errorf("it was loaded twice: %s", again)
	}
	// The trigger, whose text names the schema, works under the new name.
	must[tiers.Record](t)(s.Save(ctx, tiers.Record{Key: tiers.Key{Category: "c", Name: "d"}, Codec: "json", Value: []byte("1"), Index: &tiers.IndexText{Words: []string{"w"}}}, tiers.Cond{}))
	must[tiers.Record](t)(s.Save(ctx, tiers.Record{Key: tiers.Key{Category: "c", Name: "d"}, Codec: "json", Value: []byte("2")}, tiers.Cond{}))
	told := func() bool {
		return slices.ContainsFunc(s.Diagnose(ctx), func(f tiers.Finding) bool {
			return f.OK && strings.Contains(f.Message, replaced) && strings.Contains(f.Hint, "DROP SCHEMA "+replaced)
		})
	}
	if !told() {
		t.Errorf("nobody is told that %s is kept", replaced)
	}
	if _, err := s.write.Exec(ctx, "DROP SCHEMA "+replaced+" CASCADE"); err != nil {
		t.Errorf("what was there before is not kept: %v", err)
	}
	if told() {
		t.Errorf("%s is gone", replaced)
	}
	must[tiers.Record](t)(s.Save(ctx, tiers.Record{Key: tiers.Key{Category: "c", Name: "d"}, Codec: "json", Value: []byte("3"), Index: &tiers.IndexText{Words: []string{"w"}}}, tiers.Cond{}))
	must[tiers.Record](t)(s.Save(ctx, tiers.Record{Key: tiers.Key{Category: "c", Name: "d"}, Codec: "json", Value: []byte("4")}, tiers.Cond{}))
}

func TestDamagedOrForeignCopyIsRefused(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), full(t)
	good, _ := copyOf(t, s)
	text := string(must[[]byte](t)(os.ReadFile(good)))
	swap := func(old, by string) string { return strings.Replace(text, old, by, 1) }
	for _, c := range []struct {
		why, text string
		want      error
	}{
		{"it is cut within", text[:len(text)/2], tiers.ErrCorrupt},
		{"it is cut at its last line", strings.TrimSuffix(text, endOfCopy+"\n"), tiers.ErrCorrupt},
		{"something comes behind", text + "DROP TABLE x;\n", tiers.ErrCorrupt},
		{"a statement is among the rows", swap("COPY counters", "DROP TABLE x;\nCOPY counters"), tiers.ErrCorrupt},
		{"another mark is set", swap("SELECT setval('version', ", "SELECT setval('version', 1"), tiers.ErrCorrupt},
		{"another column", swap("(name, value)", "(name, other)"), tiers.ErrCorrupt},
		{"a value is no hexadecimal", swap(`\\x7b`, `\\xzz`), tiers.ErrCorrupt},
		{"a value is no JSON", swap(`\\x7b`, `\\x7d`), tiers.ErrCorrupt},
		{"a row has a column too few", swap("\tjson\t", "\t"), tiers.ErrCorrupt},
		{"a category that is none", swap("\ta.b\t", "\t../b\t"), tiers.ErrCorrupt},
		{"keys are not in order", swap(`-000`, `-999`), tiers.ErrCorrupt},
		{"a newer schema", swap("schema 1", "schema 9"), tiers.ErrSchema},
		{"another file", "SQLite format 3\x00", tiers.ErrCorrupt},
		{"nothing", "", tiers.ErrCorrupt},
	} {
		if c.text == text {
			t.Fatalf("%s: nothing was changed", c.why)
		}
		path := filepath.Join(t.TempDir(), "copy")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		check := func() error {
			o, err := Copies().OpenCopy(ctx, path)
			if err != nil {
				return err
			}
			return errors.Join(o.Check(ctx), o.Close())
		}
		if err := check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.why, err)
		}
		if _, err := s.LoadCopy(ctx, path, "none"); !errors.Is(err, c.want) {
			t.Errorf("%s: loading it: %v", c.why, err)
		}
	}
	if n := must[[]tiers.Row](t)(s.Queue(ctx, 0, 10)); len(n) != 1 {
		t.Errorf("the store was changed: %v", n)
	}
}

func FuzzCopy(f *testing.F) {
	f.Add([]byte(headOf(mark{1, 2}) + "COPY records"))
	f.Add([]byte("a\tb\\t\\\\\t\\N"))
	all := copied()
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newCopyReader(bytes.NewReader(b), 0)
		if _, err := r.head(); err == nil {
			_ = r.table(&all[0], func(_ int64, line []byte) error {
				_, err := all[0].parse(line)
				return err
			})
		}
		for i := range all {
			row, err := all[i].parse(b)
			if err == nil && i == 0 {
				_, _ = row.record()
			}
		}
		if s, err := unescape(b); err == nil {
			if again, err := unescape([]byte(escape(s))); err != nil || again != s {
				t.Errorf("%q became %q: %v", s, again, err)
			}
		}
	})
}

// TestFreezeThatWaitsForASnapshotStopsNobody: all connections of snapshots are taken, and
// who has them may need what others save.
func TestFreezeThatWaitsForASnapshotStopsNobody(t *testing.T) {
	t.Parallel()
	tier, clock := open1(t, shared(t)), tiers.SystemClock()
	views := make([]tiers.Snapshot, maxSnapshots)
	for i := range views {
		views[i] = must[tiers.Snapshot](t)(tier.Snapshot(t.Context()))
	}
	frozen := make(chan error, 1)
	go func() {
		f, err := tier.Freeze(t.Context(), nil)
		if err == nil {
			err = f.Close()
		}
		frozen <- err
	}()
	for until := clock.Now().Add(500 * time.Millisecond); clock.Now().Before(until); _ = clock.Sleep(t.Context(), 10*time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := tier.Save(ctx, record("k", "v"), tiers.Cond{})
		cancel()
		if err != nil {
			t.Errorf("while it waits a save answers %v", err)
			break
		}
	}
	select {
	case err := <-frozen:
		t.Errorf("it has not waited, and answers %v", err)
	default:
	}
	for _, v := range views[1:] {
		defer func() { _ = v.Close() }()
	}
	if err := errors.Join(views[0].Close(), <-frozen); err != nil {
		t.Error(err)
	}
}
