package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
)

func Example() {
	if err := backUpAndRestore(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// verified: 1 record of session.preferences
	// restored: {"theme":"dark"}
}

func backUpAndRestore(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "sagestore-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := database.Open(ctx, database.Config{Path: filepath.Join(dir, "sage.db")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	k := tiers.Key{Category: "session.preferences", Name: "user-42"}
	if _, err := db.Save(ctx, tiers.Record{Key: k, Codec: "json", Schema: 1, Value: []byte(`{"theme":"dark"}`)}, tiers.Cond{}); err != nil {
		return err
	}

	repo, err := backup.Open(backup.Dir(filepath.Join(dir, "backups")), backup.Options{
		Copies: []tiers.Copies{database.Copies()},
		Decode: func(_ context.Context, r tiers.Record) error { return json.Unmarshal(r.Value, new(any)) },
	})
	if err != nil {
		return err
	}
	frozen, err := db.Freeze(ctx, nil)
	if err != nil {
		return err
	}
	m, _, err := repo.Create(ctx, backup.Source{Parts: []backup.Part{{Name: "database", Path: "sage.db", Frozen: frozen}}})
	if err != nil {
		return err
	}
	for category, n := range m.Records() {
		fmt.Printf("verified: %d record of %s\n", n, category)
	}

	to := filepath.Join(dir, "restored")
	if _, err := repo.Restore(ctx, backup.Latest, backup.RestoreOptions{To: to}); err != nil {
		return err
	}
	restored, err := database.Open(ctx, database.Config{Path: filepath.Join(to, "sage.db")})
	if err != nil {
		return err
	}
	r, err := restored.Load(ctx, k)
	if err != nil {
		return errors.Join(err, restored.Close(ctx))
	}
	fmt.Printf("restored: %s\n", r.Value)
	return restored.Close(ctx)
}
