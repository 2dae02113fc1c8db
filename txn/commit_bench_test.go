package txn_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// BenchmarkCommit shows what transactions cost beside one save.
func BenchmarkCommit(b *testing.B) {
	for _, which := range [][]string{{"database"}, {"memory"}, {"file"}, {"database", "file"}, {"memory", "cache", "database", "file"}} {
		b.Run(fmt.Sprint(which), func(b *testing.B) {
			w := open(b, b.TempDir(), false)
			ctx := context.Background()
			i := 0
			for b.Loop() {
				i++
				err := w.Update(ctx, func(tx *txn.Tx) error {
					for _, name := range which {
						if _, err := tx.Tier(name).Save(ctx, record(fmt.Sprint(i%100), fmt.Sprintf("%01000d", i)), tiers.Cond{}); err != nil {
							return err
						}
					}
					return nil
				}, txn.Options{})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("one save", func(b *testing.B) {
		w := open(b, b.TempDir(), false)
		ctx := context.Background()
		i := 0
		for b.Loop() {
			i++
			if _, err := w.db.Save(ctx, record(fmt.Sprint(i%100), fmt.Sprintf("%01000d", i)), tiers.Cond{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
