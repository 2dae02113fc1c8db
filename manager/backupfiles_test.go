package manager_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
)

// filesOf opens a store with a category of files and one in a cache on files.
func filesOf(t *testing.T) (*manager.Manager, *manager.Backups) {
	t.Helper()
	cfg := &config.Config{
		DataDir: t.TempDir(), Cache: config.Cache{Driver: "file"}, Backup: config.Backup{Cache: true},
		Categories: map[string]config.Category{
			"app.blobs": {Tier: "file", Codec: "raw"}, "app.files": {Tier: "file"}, "app.cached": {Tier: "cache"},
		},
	}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all()))
	t.Cleanup(func() { closeNow(t, m) })
	return m, value[*manager.Backups](t)(m.Backups(t.Context()))
}

func TestACategoryOfFilesIsRestoredThoughItIsLargerThanATransaction(t *testing.T) {
	m, b := filesOf(t)
	large := make([]byte, 14<<20)
	for i := range 5 {
		must(t, m.Save(t.Context(), "app.blobs", fmt.Sprint(i), large))
	}
	must(t, m.Namespace("acme").Save(t.Context(), "app.blobs", "theirs", []byte("old")))
	must(t, m.Save(t.Context(), "app.cached", "a", "old"))
	must(t, m.Save(t.Context(), "agent.state", "a", "old"))
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, m.Save(t.Context(), "agent.state", "a", "new"))
	must(t, m.Save(t.Context(), "app.blobs", "0", []byte("new")))
	must(t, m.Save(t.Context(), "app.blobs", "later", []byte("new")))
	must(t, m.Save(t.Context(), "app.cached", "a", "new"))
	value[bool](t)(m.Delete(t.Context(), "app.blobs", "1"))
	before := value[manager.Item](t)(m.Item(t.Context(), "app.blobs", "0"))

	done := value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, made.ID, []string{"app.blobs", "agent.state", "app.cached"}, manager.RestoreOptions{}))
	want := []manager.CategoryRestored{
		{Category: "app.blobs", Tier: "file", Records: 6, Replaced: 6},
		{Category: "agent.state", Tier: "database", Records: 1, Replaced: 1},
		{Category: "app.cached", Tier: "cache", Records: 1, Replaced: 1},
	}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	look := func(when string) {
		t.Helper()
		for _, c := range []string{"agent.state", "app.cached"} {
			if got := value[string](t)(manager.For[string](m, c).Load(t.Context(), "a")); got != "old" {
				t.Errorf("%s: %s holds %q", when, c, got)
			}
		}
		sizes := map[string]int{}
		for item, err := range m.List(t.Context(), "app.blobs") {
			must(t, err)
			sizes[item.Key] = len(value[[]byte](t)(manager.For[[]byte](m, "app.blobs").Load(t.Context(), item.Key)))
		}
		if diff := cmp.Diff(map[string]int{"0": len(large), "1": len(large), "2": len(large), "3": len(large), "4": len(large)}, sizes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		after := value[manager.Item](t)(m.Item(t.Context(), "app.blobs", "0"))
		if after.Version <= before.Version || !after.Created.Equal(before.Created) {
			t.Errorf("%s: version %d created %v came after %d created %v", when, after.Version, after.Created, before.Version, before.Created)
		}
	}
	look("at once")
	left, err := m.ApplyPending(t.Context(), "", true)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("%v wait", left)
	}
	look("when it is applied")
	if now := value[backup.Manifest](t)(m.Backup(t.Context(), nil)); now.Records()["app.blobs"] != 6 || len(now.Records()) != 3 {
		t.Errorf("there is more than what was restored: %v", now.Records())
	}
}

// TestWhatIsSavedWhileACategoryIsRestoredIsBeforeOrAfterIt: one who writes one key and
// reads it never goes back over a restore.
func TestWhatIsSavedWhileACategoryIsRestoredIsBeforeOrAfterIt(t *testing.T) {
	m, b := filesOf(t)
	const category = "app.files"
	n := manager.For[int](m, category)
	must(t, n.Save(t.Context(), "n", 0))
	for i := range 40 {
		must(t, n.Save(t.Context(), fmt.Sprint("same/", i), 0))
	}
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	ctx := context.Background()
	var over atomic.Bool
	var acked atomic.Int64
	wrote, read := make(chan error, 1), make(chan error, 1)
	go func() {
		for i := 1; !over.Load(); i++ {
			err := n.Save(ctx, "n", i)
			if err == nil {
				err = n.Save(ctx, fmt.Sprint("new/", i), i)
			}
			if err != nil {
				wrote <- err
				return
			}
			acked.Store(int64(i))
		}
		wrote <- nil
	}()
	go func() {
		highest := 0
		for last := -1; !over.Load(); {
			v, err := n.Load(ctx, "n")
			if err == nil && v != last {
				if v != 0 && v <= highest {
					err = fmt.Errorf("%d came after %d", v, highest)
				}
				highest, last = max(highest, v), v
			}
			if err != nil {
				read <- err
				return
			}
		}
		read <- nil
	}()
	for range 4 {
		before := acked.Load()
		for acked.Load() < before+5 && len(wrote) == 0 {
			_, err := m.Exists(t.Context(), category, "n")
			must(t, err)
		}
		before = acked.Load()
		value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, backup.Latest, []string{category}, manager.RestoreOptions{}))
		for i := before; i > max(0, before-5); i-- {
			if value[bool](t)(m.Exists(t.Context(), category, fmt.Sprint("new/", i))) {
				t.Errorf("what was saved before the restore, as number %d, is there", i)
			}
		}
	}
	over.Store(true)
	must(t, errors.Join(<-wrote, <-read))
	last := acked.Load() + 1
	must(t, n.Save(t.Context(), "n", int(last)))
	left, err := m.ApplyPending(t.Context(), "", true)
	if got := value[int](t)(n.Load(t.Context(), "n")); err != nil || len(left) != 0 || got != int(last) {
		t.Errorf("it holds %d and not %d, %v wait: %v", got, last, left, err)
	}
}

// TestAReaderOfFilesSeesTheOldOrTheNewCategory: readers of single keys in turn, and
// transactions that list it.
func TestAReaderOfFilesSeesTheOldOrTheNewCategory(t *testing.T) {
	m, b := filesOf(t)
	const category, n = "app.files", 100
	save := func(text string) {
		must(t, m.Update(t.Context(), func(tx *manager.Tx) error {
			for i := range n {
				if err := tx.Save(t.Context(), category, fmt.Sprint(i), text+strings.Repeat("x", 4<<10)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	save("old")
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	save("new")
	must(t, m.Save(t.Context(), category, "later", "new"))
	ctx := context.Background()
	var over atomic.Bool
	listed, loaded := make(chan error, 1), make(chan error, 1)
	go func() {
		for !over.Load() {
			var counts map[string]int
			err := m.Update(ctx, func(tx *manager.Tx) error {
				counts = map[string]int{}
				for item, err := range tx.List(ctx, category) {
					if err != nil {
						return err
					}
					var v string
					if err := item.Decode(&v); err != nil {
						return err
					}
					counts[v[:3]]++
				}
				return nil
			}, manager.WithRetry(100))
			if err == nil && (len(counts) != 1 || counts["old"] != n && counts["new"] != n+1) {
				err = fmt.Errorf("a transaction saw %v", counts)
			}
			if err != nil {
				listed <- err
				return
			}
		}
		listed <- nil
	}()
	go func() {
		files, seen := manager.For[string](m, category), "new"
		for i := 0; !over.Load(); i++ {
			v, err := files.Load(ctx, fmt.Sprint(i%n))
			if err == nil && v[:3] != "old" && seen == "old" {
				err = fmt.Errorf("key %d is the one from before, and others were restored already", i%n)
			}
			if err != nil {
				loaded <- err
				return
			}
			seen = v[:3]
		}
		loaded <- nil
	}()
	value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, backup.Latest, []string{category}, manager.RestoreOptions{}))
	left, err := m.ApplyPending(t.Context(), "", true)
	over.Store(true)
	must(t, errors.Join(<-listed, <-loaded))
	if err != nil || len(left) != 0 {
		t.Errorf("%v wait: %v", left, err)
	}
}

// TestWritesThatWaitedForTheFilesAreInTheBackupOfTheirCategory: of what was committed
// before the backup nothing depends on whether it had come to the files already.
func TestWritesThatWaitedForTheFilesAreInTheBackupOfTheirCategory(t *testing.T) {
	m, b := filesOf(t)
	const category = "app.files"
	files := manager.For[string](m, category)
	must(t, files.Save(t.Context(), "deleted", "of before"))
	must(t, files.Save(t.Context(), "changed", "of before"))
	must(t, files.Save(t.Context(), "stays", "stays"))
	must(t, files.Save(t.Context(), "short", "of before"))
	// Whoever has this lock applies writes that wait, and nobody else.
	other := value[*database.Tier](t)(database.Open(t.Context(), database.Config{Path: filepath.Join(m.Config().DataDir, "sage.db")}))
	defer func() { must(t, other.Close(context.Background())) }()
	var unlock func()
	for unlock == nil { // they may be at it
		var err error
		unlock, _, err = other.Lock(t.Context(), "file.applier")
		must(t, err)
	}
	must(t, m.Update(t.Context(), func(tx *manager.Tx) error {
		_, err := tx.Delete(t.Context(), category, "deleted")
		return errors.Join(err, tx.Save(t.Context(), category, "changed", "committed"),
			tx.Namespace("acme").Save(t.Context(), category, "theirs", "committed"),
			tx.Save(t.Context(), "config", "only", "committed"),
			tx.Save(t.Context(), category, "short", "gone soon", manager.TTL(time.Hour)))
	}))
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	if _, waited := made.Waiting(); waited != 5 {
		t.Fatalf("%d writes waited", waited)
	}
	unlock()
	for _, key := range []string{"deleted", "changed", "stays", "short", "later"} {
		must(t, files.Save(t.Context(), key, "later"))
	}
	must(t, m.Namespace("acme").Save(t.Context(), category, "theirs", "later"))
	must(t, m.Save(t.Context(), "config", "only", "later"))
	done := value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, made.ID, []string{category, "config"}, manager.RestoreOptions{}))
	if done[0].Records != 4 || done[0].Replaced != 6 || done[1].Records != 1 {
		t.Errorf("it says %+v", done)
	}
	got := map[string]string{}
	for item, err := range m.List(t.Context(), category) {
		must(t, err)
		got[item.Key] = value[string](t)(files.Load(t.Context(), item.Key))
	}
	got["acme"] = value[string](t)(manager.For[string](m.Namespace("acme"), category).Load(t.Context(), "theirs"))
	got["config"] = value[string](t)(manager.For[string](m, "config").Load(t.Context(), "only"))
	want := map[string]string{"changed": "committed", "stays": "stays", "short": "gone soon", "acme": "committed", "config": "committed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWritesThatWaitedForATierThatWasLeftOutRestoreNothing: they are in a backup, since the
// journal is, and the rest of the category is not.
func TestWritesThatWaitedForATierThatWasLeftOutRestoreNothing(t *testing.T) {
	cfg := &config.Config{
		DataDir: t.TempDir(), Cache: config.Cache{Driver: "file"},
		Categories: map[string]config.Category{"app.cached": {Tier: "cache"}},
	}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all()))
	defer closeNow(t, m)
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	cached := manager.For[string](m, "app.cached")
	must(t, cached.Save(t.Context(), "a", "stays"))
	// Whoever has this lock applies writes that wait, and nobody else.
	other := value[*database.Tier](t)(database.Open(t.Context(), database.Config{Path: filepath.Join(m.Config().DataDir, "sage.db")}))
	defer func() { must(t, other.Close(context.Background())) }()
	var unlock func()
	for unlock == nil { // they may be at it
		var err error
		unlock, _, err = other.Lock(t.Context(), "cache.applier")
		must(t, err)
	}
	must(t, m.Update(t.Context(), func(tx *manager.Tx) error { return cached.In(tx).Save(t.Context(), "b", "waits") }))
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	if _, waited := made.Waiting(); waited != 1 {
		t.Fatalf("%d writes waited", waited)
	}
	unlock()
	_, err := b.RestoreCategories(t.Context(), m, made.ID, []string{"app.cached"}, manager.RestoreOptions{})
	if !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("restoring answers %v", err)
	}
	if got, err := cached.Load(t.Context(), "a"); err != nil || got != "stays" {
		t.Errorf("what was there is %q, %v", got, err)
	}
}

func TestARestoreThatCouldNotSwitchTellsOfNoCategory(t *testing.T) {
	m, b := filesOf(t)
	must(t, m.Save(t.Context(), "app.files", "a", "old"))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done, err := b.RestoreCategories(ctx, m, backup.Latest, []string{"app.files"}, manager.RestoreOptions{Progress: func(p backup.Progress) {
		if p.Step == "switch" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || len(done) > 0 {
		t.Errorf("it says %+v, %v", done, err)
	}
}

func TestWhatOthersSaveWhileACategoryIsPreparedIsGoneThen(t *testing.T) {
	m, b := filesOf(t)
	const category = "app.files"
	must(t, m.Save(t.Context(), category, "a", "old"))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	steps := map[string]int{}
	getInTheWay := func(p backup.Progress) {
		steps[p.Step]++
		must(t, m.Save(t.Context(), category, "a", "of a writer"))
		must(t, m.Save(t.Context(), category, p.Step, "of a writer"))
	}
	done := value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, backup.Latest, []string{category}, manager.RestoreOptions{Progress: getInTheWay}))
	if diff := cmp.Diff(map[string]int{"restore": 1, "switch": 1}, steps); diff != "" || done[0].Replaced != 3 {
		t.Errorf("%+v (-want +got):\n%s", done, diff)
	}
	for item, err := range m.List(t.Context(), category) {
		must(t, err)
		if got := value[string](t)(manager.For[string](m, category).Load(t.Context(), item.Key)); item.Key != "a" || got != "old" {
			t.Errorf("%s holds %q", item.Key, got)
		}
	}
}
