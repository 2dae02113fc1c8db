package cloud_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/backup/cloud"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

var preferences = tiers.Key{Category: "session.preferences", Name: "user-42"}

// TestAStoreComesBackFromABucket: made, verified, listed, pruned and restored.
func TestAStoreComesBackFromABucket(t *testing.T) {
	for _, url := range []string{"mem://", "mem://bucket/below/this", "file://" + filepath.Join(t.TempDir(), "backups")} {
		t.Run(url[:4], func(t *testing.T) { backUpAndRestore(t, open(t, url)) })
	}
}

func backUpAndRestore(t *testing.T, b *cloud.Bucket) {
	t.Helper()
	ctx := t.Context()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	clock := tiertest.NewClock(time.Date(2026, 11, 28, 3, 30, 0, 0, time.UTC))
	temp := t.TempDir()
	repo, err := backup.Open(b.Unwrap(), backup.Options{
		Recipients: []string{identity.Recipient().String()}, Identities: []string{identity.String()}, Key: []byte("a key of the backups"),
		Copies: []tiers.Copies{database.Copies()}, Temp: temp, Clock: clock,
		Decode: func(_ context.Context, r tiers.Record) error { return json.Unmarshal(r.Value, new(any)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(ctx, database.Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	var ids []string
	for _, theme := range []string{`"light"`, `"dark"`, `"blue"`} {
		if _, err := db.Save(ctx, tiers.Record{Key: preferences, Codec: "json", Schema: 1, Value: []byte(theme)}, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		frozen, err := db.Freeze(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := repo.Create(ctx, backup.Source{Parts: []backup.Part{{Name: "database", Path: "sage.db", Frozen: frozen}}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
		clock.Advance(24 * time.Hour)
	}
	if report, err := repo.Verify(ctx, backup.Latest, true); err != nil || report.Decoded != 1 || !report.Rehearsed {
		t.Fatalf("verified like this: %+v, %v", report, err)
	}

	policy := backup.Policy{Last: 2}
	if _, err := repo.Prune(ctx, policy, false); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for e, err := range repo.List(ctx) {
		if err != nil || e.Err != nil || e.Verified.IsZero() {
			t.Fatal(e, err)
		}
		kept = append(kept, e.ID)
	}
	if len(kept) != 2 || kept[0] != ids[2] || kept[1] != ids[1] {
		t.Errorf("kept are %v of %v", kept, ids)
	}
	for name, err := range b.List(ctx, ids[0]) {
		t.Errorf("of what was pruned %s is left, %v", name, err)
	}

	for id, want := range map[string]string{backup.Latest: `"blue"`, ids[1]: `"dark"`} {
		to := filepath.Join(t.TempDir(), "restored")
		if _, err := repo.Restore(ctx, id, backup.RestoreOptions{To: to}); err != nil {
			t.Fatal(err)
		}
		if got := saved(t, filepath.Join(to, "sage.db")); got != want {
			t.Errorf("%s has %s, want %s", id, got, want)
		}
	}

	damage(t, b, ids[2])
	if _, err := repo.Verify(ctx, ids[2], false); !errors.Is(err, tiers.ErrCorrupt) {
		t.Errorf("a damaged one: %v", err)
	}
	if e, err := repo.Latest(ctx); err != nil || e.ID != ids[1] {
		t.Errorf("the latest is %s, %v", e.ID, err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("in the temporary place are %v, %v", left, err)
	}
}

func saved(t *testing.T, path string) string {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	r, err := db.Load(t.Context(), preferences)
	if err := errors.Join(err, db.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return string(r.Value)
}

// damage replaces the part of a backup.
func damage(t *testing.T, b backup.Bucket, id string) {
	t.Helper()
	for name, err := range b.List(t.Context(), id+"/database") {
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Put(t.Context(), name, strings.NewReader("damaged")); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("there is no part to damage")
}
