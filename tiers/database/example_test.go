package database_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sagestore-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	t, err := database.Open(ctx, database.Config{Path: filepath.Join(dir, "sage.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = t.Close(ctx) }()

	k := tiers.Key{Category: "session.preferences", Name: "user-42"}
	r := tiers.Record{Key: k, Codec: "json", Schema: 1, Value: []byte(`{"theme":"dark"}`)}
	if _, err := t.Save(ctx, r, tiers.Cond{}); err != nil {
		fmt.Println(err)
		return
	}
	r.TTL = time.Hour
	saved, err := t.Save(ctx, r, tiers.Cond{})
	fmt.Println("expires in an hour:", saved.Expires.Sub(saved.Updated), err)

	loaded, err := t.Load(ctx, k)
	fmt.Println(string(loaded.Value), err)

	_, err = t.Save(ctx, r, tiers.If(0))
	fmt.Println("already there:", errors.Is(err, tiers.ErrExists))

	exists, err := t.Exists(ctx, k)
	fmt.Println("exists:", exists, err)
	existed, err := t.Delete(ctx, k, tiers.Cond{})
	fmt.Println("deleted:", existed, err)
	_, err = t.Load(ctx, k)
	fmt.Println("gone:", errors.Is(err, tiers.ErrNotFound))

	// Output:
	// expires in an hour: 1h0m0s <nil>
	// {"theme":"dark"} <nil>
	// already there: true
	// exists: true <nil>
	// deleted: true <nil>
	// gone: true
}

func ExampleOpen_memory() {
	ctx := context.Background()
	t, err := database.Open(ctx, database.Config{Path: database.Memory})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Describe().Durable, t.Close(ctx))
	// Output: false <nil>
}

func ExampleTier_Commit() {
	ctx := context.Background()
	t, err := database.Open(ctx, database.Config{Path: database.Memory})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = t.Close(ctx) }()

	k := tiers.Key{Category: "account", Name: "user-42"}
	read, err := t.Save(ctx, tiers.Record{Key: k, Codec: "json", Value: []byte(`100`)}, tiers.Cond{})
	if err != nil {
		fmt.Println(err)
		return
	}
	transfer := tiers.Commit{
		ID:    "transfer-1",
		Reads: []tiers.Read{{Key: k, Version: read.Version}},
		Saves: []tiers.Record{{Key: k, Codec: "json", Value: []byte(`70`)}},
	}
	_, err = t.Commit(ctx, transfer)
	fmt.Println("committed:", err == nil)

	transfer.ID = "transfer-2" // has read the same, and comes too late
	_, err = t.Commit(ctx, transfer)
	fmt.Println("conflict:", errors.Is(err, tiers.ErrConflict))

	for _, id := range []string{"transfer-1", "transfer-2"} {
		committed, err := t.Outcome(ctx, id)
		fmt.Println(id, committed, err)
	}
	// Output:
	// committed: true
	// conflict: true
	// transfer-1 true <nil>
	// transfer-2 false <nil>
}
