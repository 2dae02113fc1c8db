//go:build linux

package main

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func TestOfATransactionAndASaveAtTheSameTimeTheHigherVersionStays(t *testing.T) {
	ctx := t.Context()
	s := store{Dir: filepath.Join(t.TempDir(), "data")}
	var ms [2]*manager.Manager
	for i := range ms {
		m, err := s.open(ctx, newPoints("", 0, false), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := m.Close(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		}()
		ms[i] = m
	}
	for _, tier := range []string{"file", "cache"} {
		here, there := manager.For[check.Value](ms[0], "pool."+tier), manager.For[check.Value](ms[1], "pool."+tier)
		for i := range 60 {
			var wg sync.WaitGroup
			var inTx, bare tiers.Version
			wg.Go(func() {
				var tx *manager.Tx
				err := ms[0].Update(ctx, func(x *manager.Tx) error {
					tx = x
					return here.In(x).Save(ctx, "k", check.Value{Op: "transaction"})
				})
				if err != nil {
					t.Errorf("transaction: %v", err)
					return
				}
				inTx = tx.Version("pool."+tier, "k")
			})
			wg.Go(func() {
				e, err := there.SaveEntry(ctx, "k", check.Value{Op: "save"})
				if err != nil {
					t.Errorf("save: %v", err)
				}
				bare = e.Version
			})
			wg.Wait()
			if err := s.waitForJournal(ctx); err != nil {
				t.Fatal(err)
			}
			e, err := there.Entry(ctx, "k")
			if err != nil || e.Version != max(inTx, bare) {
				t.Fatalf("%s, try %d: the transaction was acknowledged with version %d and the save with %d; the %s with %d is stored, %v", tier, i, inTx, bare, e.Value.Op, e.Version, err)
			}
		}
	}
}
