package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// An order and what is left in stock are saved as one, on two tiers.
func ExampleManager_Update() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sagestore")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	m, err := manager.OpenDir(ctx, dir, embedded.Tiers())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = m.Close(ctx) }()

	orders := manager.For[string](m, "learning.patterns") // in the database
	stock := manager.For[int](m, "config")                // in a file
	if err := stock.Save(ctx, "tea", 1); err != nil {
		log.Fatal(err)
	}
	errSoldOut := errors.New("sold out")
	order := func(id string) error {
		return m.Update(ctx, func(tx *manager.Tx) error {
			if err := orders.In(tx).Save(ctx, id, "tea"); err != nil {
				return err
			}
			left, err := stock.In(tx).Load(ctx, "tea")
			if err != nil {
				return err
			}
			if left == 0 {
				return errSoldOut // takes the order back
			}
			return stock.In(tx).Save(ctx, "tea", left-1)
		}, manager.WithRetry(10))
	}
	fmt.Println(order("first"), order("second"))
	first, _ := orders.Exists(ctx, "first")
	second, _ := orders.Exists(ctx, "second")
	fmt.Println(first, second)
	// Output:
	// <nil> sold out
	// true false
}
