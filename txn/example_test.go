package txn_test

import (
	"context"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/txn"
)

// A cache whose server is away is as good as the journal.
func ExampleJournal() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{}) // a program has its database here
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close(ctx) }()
	records, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = records.Close(ctx) }()
	server := newServer()
	server.set(true) // it is away
	cache := &flaky{Tier: records, server: server, clock: tiers.SystemClock()}

	system, _ := tiers.As[tiers.System](store)
	j, err := txn.Journal(ctx, cache, system, txn.Config{Epoch: "e1"})
	if err != nil {
		panic(err)
	}
	_, err = j.Save(ctx, rec("s-1", "hello"), tiers.Cond{})
	r, _ := j.Load(ctx, key("s-1"))
	fmt.Println(string(r.Value), err)

	server.set(false)                                // it is back
	fmt.Println(j.Close(ctx))                        // applies what waits
	r, err = records.Load(ctx, key("s-1"))           // the server has it
	fmt.Println(string(r.Value), err, r.Version > 0) // with the version from the journal
	// Output:
	// hello <nil>
	// <nil>
	// hello <nil> true
}
