package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

var night = time.Date(2026, 11, 28, 3, 30, 0, 0, time.UTC)

// store is a small store to back up: a database and a tree of files.
type store struct {
	dir   string
	db    *database.Tier
	files *file.Tier
}

func treePath(dir string) string { return filepath.Join(dir, "data") }

func dbPath(dir string) string { return filepath.Join(dir, "sage.db") }

func newStore(t *testing.T, dir string) *store {
	t.Helper()
	s := &store{dir: dir}
	s.open(t)
	for _, c := range []string{"session.preferences", "agent.state"} {
		for i := range 20 {
			s.save(t, c, fmt.Sprintf("key-%02d", i), fmt.Sprintf(`{"n":%d}`, i))
		}
	}
	s.file(t, "config/settings.json", `{"theme":"dark"}`)
	s.file(t, "config/.settings.meta", `{"entries":[]}`)
	_, err := s.files.Save(t.Context(), tiers.Record{Key: tiers.Key{Category: "notes", Name: "saved"}, Codec: "raw", Schema: 1, Value: []byte("bytes")}, tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	s.file(t, "notes/2026/trip.json", `"Rome"`)
	return s
}

func (s *store) open(t *testing.T) {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{Path: dbPath(s.dir), Synchronous: database.Normal})
	if err != nil {
		t.Fatal(err)
	}
	s.db = db
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	files, err := file.Open(t.Context(), file.Config{BasePath: treePath(s.dir)})
	if err != nil {
		t.Fatal(err)
	}
	s.files = files
	t.Cleanup(func() { _ = files.Close(context.Background()) })
	if _, err := db.SetFact(t.Context(), FactEpoch, []byte("epoch-1"), true); err != nil {
		t.Fatal(err)
	}
}

func (s *store) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.db.Close(context.Background()), s.files.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
}

func (s *store) save(t *testing.T, category, name, value string) {
	t.Helper()
	_, err := s.db.Save(t.Context(), tiers.Record{Key: tiers.Key{Category: category, Name: name}, Codec: "json", Schema: 1, Value: []byte(value)}, tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *store) file(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.dir, "data", filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// source freezes the store.
func (s *store) source(t *testing.T) Source {
	t.Helper()
	var files tiers.Frozen
	frozen, err := s.db.Freeze(t.Context(), func(ctx context.Context) (err error) {
		files, err = s.files.Freeze(ctx, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return Source{Store: "store-1", Tools: map[string]string{"sagestore": "test"}, Parts: []Part{
		{Name: "database", Path: "sage.db", Frozen: frozen}, {Name: "file", Path: "data", Frozen: files},
	}}
}

// state is everything that the store below a directory holds, but for its epoch.
func state(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	ctx := context.Background()
	if _, err := os.Stat(dbPath(dir)); err == nil {
		db, err := database.Open(ctx, database.Config{Path: dbPath(dir), Synchronous: database.Normal})
		if err != nil {
			t.Fatal(err)
		}
		for space, err := range db.Spaces(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			for r, err := range db.List(ctx, tiers.Query{Namespace: space.Namespace, Category: space.Category}) {
				if err != nil {
					t.Fatal(err)
				}
				all[space.Category+" "+r.Name] = fmt.Sprintf("%s %d %v", r.Value, r.Version, r.Created)
			}
		}
		if err := db.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	root := treePath(dir)
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch rel := strings.TrimPrefix(path, root); {
		case strings.HasPrefix(rel, "/.lock/"), rel == "/.mark": // made anew
			return nil
		}
		b, err := os.ReadFile(path)
		st, statErr := e.Info()
		all[strings.TrimPrefix(path, root)] = fmt.Sprintf("%s %v", b, st.ModTime().UTC())
		return errors.Join(err, statErr)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func epochOf(t *testing.T, dir string) string {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{Path: dbPath(dir)})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := db.Fact(t.Context(), FactEpoch)
	if err := errors.Join(err, db.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return string(epoch)
}

// decodeJSON stands for the codecs of an app.
func decodeJSON(_ context.Context, r tiers.Record) error {
	if r.Codec == "json" && !json.Valid(r.Value) {
		return fmt.Errorf("%w: no JSON", tiers.ErrCorrupt)
	}
	return nil
}

// options are those of a repository of test stores.
func options(t *testing.T) Options {
	t.Helper()
	return Options{
		Copies: []tiers.Copies{database.Copies(), file.Copies()}, Decode: decodeJSON,
		Temp: t.TempDir(), Clock: tiertest.NewClock(night),
	}
}

func mustRepo(t *testing.T, b Bucket, o Options) *Repo {
	t.Helper()
	r, err := Open(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustCreate(t *testing.T, r *Repo, s *store) Manifest {
	t.Helper()
	m, report, err := r.Create(t.Context(), s.source(t))
	if err != nil {
		t.Fatal(err)
	}
	if report.Decoded == 0 || report.Parts != len(m.Parts) {
		t.Fatalf("it was verified like this: %+v", report)
	}
	return m
}

func entries(t *testing.T, r *Repo) (all []Entry) {
	t.Helper()
	for e, err := range r.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// bucket keeps objects in memory, and fails as it is told to.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	put     func(name string) error // before it stores
	get     func(name string) error
	early   bool // stops reading and says that all is well
}

func newBucket() *bucket { return &bucket{objects: map[string][]byte{}} }

func (b *bucket) Put(_ context.Context, name string, r io.Reader) error {
	if b.put != nil {
		if err := b.put(name); err != nil {
			return err
		}
	}
	if b.early {
		r = io.LimitReader(r, 100)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[name] = all
	return nil
}

func (b *bucket) Get(_ context.Context, name string) (io.ReadCloser, error) {
	if b.get != nil {
		if err := b.get(name); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all, ok := b.objects[name]
	if !ok {
		return nil, tiers.ErrNotFound
	}
	return io.NopCloser(strings.NewReader(string(all))), nil
}

func (b *bucket) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	b.mu.Lock()
	names := slices.Sorted(maps.Keys(b.objects))
	b.mu.Unlock()
	return func(yield func(string, error) bool) {
		for _, n := range names {
			if strings.HasPrefix(n, prefix) && !yield(n, nil) {
				return
			}
		}
	}
}

func (b *bucket) Delete(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, name)
	return nil
}

func (b *bucket) clone() *bucket {
	c := newBucket()
	maps.Copy(c.objects, b.objects)
	return c
}
