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
