package backup_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// TestABackupUnderWritersHoldsWholeTransactionsAndWhatWasAcknowledged: each writer
// commits a number into the database and into a file, and saves it into another file.
func TestABackupUnderWritersHoldsWholeTransactionsAndWhatWasAcknowledged(t *testing.T) {
	const writers, rounds = 8, 3
	ctx := t.Context()
	dir := t.TempDir()
	m, err := manager.Open(ctx, &config.Config{DataDir: filepath.Join(dir, "store")}, embedded.Tiers())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ballast(t, m)
	var over atomic.Bool
	var acknowledged [writers]atomic.Int64
	var work sync.WaitGroup
	defer work.Wait()
	defer over.Store(true)
	for w := range writers {
		stored, filed := manager.For[int64](m, "agent.state"), manager.For[int64](m, "config")
		work.Go(func() {
			for n := int64(1); !over.Load(); n++ {
				err := m.Update(ctx, func(tx *manager.Tx) error {
					if err := stored.In(tx).Save(ctx, fmt.Sprint(w), n); err != nil {
						return err
					}
					return filed.In(tx).Save(ctx, fmt.Sprint("both/", w), n)
				})
				if err == nil {
					err = filed.Save(ctx, fmt.Sprint("alone/", w), n)
				}
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged[w].Store(n)
			}
		})
	}
	sum := func() (all int64) {
		for w := range writers {
			all += acknowledged[w].Load()
		}
		return all
	}
	for round := range rounds {
		var before [writers]int64
		for w := range writers {
			for acknowledged[w].Load() < int64(3*(round+1)) && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
			before[w] = acknowledged[w].Load()
		}
		var first, last int64 // acknowledged while parts are copied
		told := 0
		made, err := m.Backup(ctx, nil, manager.BackupProgress(func(p backup.Progress) {
			if p.Step != "copy" || p.Done == 0 {
				return
			}
			if last = sum(); told == 0 {
				first = last
			}
			told++
		}))
		if err != nil {
			t.Fatal(err)
		}
		if told < 2 || last <= first {
			t.Errorf("while the store was copied, of which was told %d times, %d commits were acknowledged", told, last-first)
		}
		// The cut is all that is waited for, which has nothing to do with how much is copied.
		if made.Held <= 0 || made.Held > made.Took/2 || made.Held > 5*time.Second {
			t.Errorf("commits waited %v for a backup that took %v", made.Held, made.Took)
		}
		t.Logf("commits waited %v for a backup that took %v, and %d were acknowledged while it copied", made.Held, made.Took, last-first)
		wantWhole(t, m, made.ID, filepath.Join(dir, fmt.Sprint("restored-", round)), before[:])
	}
}

// ballast makes a store that takes a while to copy.
func ballast(t *testing.T, m *manager.Manager) {
	t.Helper()
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 24 {
		b := make([]byte, 512<<10)
		_, _ = noise.Read(b) // never fails
		if err := m.Save(t.Context(), "learning.patterns", fmt.Sprint("ballast/", i), hex.EncodeToString(b)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantWhole restores a backup and looks at what each writer had committed.
func wantWhole(t *testing.T, m *manager.Manager, id, to string, before []int64) {
	t.Helper()
	ctx := t.Context()
	b, err := m.Backups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restore(ctx, id, manager.RestoreOptions{To: to}); err != nil {
		t.Fatal(err)
	}
	restored, err := manager.Open(ctx, &config.Config{DataDir: to}, embedded.Tiers())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := restored.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	number := func(category, key string) (n int64) {
		t.Helper()
		if err := restored.Load(ctx, category, key, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for w, n := range before {
		stored, filed, alone := number("agent.state", fmt.Sprint(w)), number("config", fmt.Sprint("both/", w)), number("config", fmt.Sprint("alone/", w))
		if stored != filed {
			t.Errorf("writer %d: a transaction is half there: %d in the database, %d in the file", w, stored, filed)
		}
		if stored < n || alone < n {
			t.Errorf("writer %d: %d was acknowledged before the backup, which has %d and %d", w, n, stored, alone)
		}
		if alone > stored || alone < stored-1 {
			t.Errorf("writer %d: %d was committed and %d saved, which was never so", w, stored, alone)
		}
	}
}
