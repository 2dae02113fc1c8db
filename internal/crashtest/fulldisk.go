package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// diskSize is the size of the file system that [FullDisk] fills.
const diskSize = "8m"

// SmallDisk answers a directory that is a file system of its own, of a size as in "8m".
// The test is skipped where the process may not mount, except in CI. It ends with an
// error where a file of the disk is still open, so it must run alone: a child that
// another test starts has our open files until it runs its own program.
func SmallDisk(tb testing.TB, size string) (dir string) {
	tb.Helper()
	tb.Setenv("SAGESTORE_SMALL_DISK", size) // which panics in a parallel test
	dir = tb.TempDir()
	need(tb, "a file system in memory", mount(dir, size))
	tb.Cleanup(func() {
		if err := unmount(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// FullDisk saves on a file system of 8 MiB until it is full, and checks that the
// store says so with tiers.ErrFull, that everything acknowledged is still there,
// and that the same open store goes on once there is room. The test is skipped
// where the process may not mount, except in CI.
func FullDisk(t *testing.T, s Store) {
	t.Helper()
	dir := SmallDisk(t, diskSize)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	tier, err := s.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	saved := fill(t, tier)
	if err := intact(ctx, tier, saved); err != nil {
		t.Fatalf("with the disk full: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		k := diskKey(1000 + i)
		if _, err := tier.Save(ctx, diskRecord(k, 10_000), tiers.Cond{}); err != nil {
			t.Fatalf("there is room again, and a save fails: %v", err)
		}
		saved = append(saved, k)
	}
	if _, err := tier.Delete(ctx, saved[0], tiers.Cond{}); err != nil {
		t.Fatalf("there is room again, and a delete fails: %v", err)
	}
	saved = saved[1:]
	if err := errors.Join(intact(ctx, tier, saved), tier.Close(ctx)); err != nil {
		t.Fatalf("after room was made: %v", err)
	}
	if tier, err = s.Open(ctx, store); err != nil {
		t.Fatalf("it does not open again: %v", err)
	}
	if err := errors.Join(intact(ctx, tier, saved), tier.Close(ctx)); err != nil {
		t.Fatalf("opened again: %v", err)
	}
}

// fill saves until ten saves in a row do not fit, and answers what did.
func fill(t *testing.T, tier tiers.Tier) (saved []tiers.Key) {
	t.Helper()
	refused := 0
	for i := 0; refused < 10; i++ {
		if i == 1000 {
			t.Fatal("the disk does not get full")
		}
		k := diskKey(i)
		err := diskSave(t.Context(), tier, i)
		switch {
		case err == nil:
			saved = append(saved, k)
			refused = 0
		case errors.Is(err, tiers.ErrFull):
			if err := nothingOf(t.Context(), tier, k); err != nil {
				t.Fatalf("after a refusal: %v", err)
			}
			refused++
		default:
			t.Fatalf("after %d saves: %v, want tiers.ErrFull", len(saved), err)
		}
	}
	return saved
}

// diskSave saves a record. Every second time it commits it together with a row of
// the journal, where the store can.
func diskSave(ctx context.Context, tier tiers.Tier, i int) error {
	r := diskRecord(diskKey(i), 50_000)
	committer, ok := tiers.As[tiers.Committer](tier)
	if !ok || i%2 == 0 {
		_, err := tier.Save(ctx, r, tiers.Cond{})
		return err
	}
	_, err := committer.Commit(ctx, tiers.Commit{
		ID: fmt.Sprint("full-", i), Saves: []tiers.Record{r}, Rows: []tiers.Row{{Record: r, Tier: "cache"}},
	})
	return err
}

// nothingOf answers what a refused operation has left.
func nothingOf(ctx context.Context, tier tiers.Tier, k tiers.Key) error {
	if _, err := tier.Load(ctx, k); !errors.Is(err, tiers.ErrNotFound) {
		return fmt.Errorf("its record %s: %w", k.Name, errors.Join(err, errLeft))
	}
	system, ok := tiers.As[tiers.System](tier)
	if !ok {
		return nil
	}
	if _, err := system.Pending(ctx, "cache", k); !errors.Is(err, tiers.ErrNotFound) {
		return fmt.Errorf("its row %s: %w", k.Name, errors.Join(err, errLeft))
	}
	return nil
}

var errLeft = errors.New("it is there")

func diskKey(i int) tiers.Key {
	return tiers.Key{Category: "crash.test", Name: fmt.Sprintf("disk-%04d", i)}
}

func diskRecord(k tiers.Key, size int) tiers.Record {
	return tiers.Record{Key: k, Codec: "json", Schema: 1, Value: encode(k.Name, 1, strings.Repeat("x", size))}
}

func intact(ctx context.Context, t tiers.Tier, keys []tiers.Key) error {
	var errs []error
	for _, k := range keys {
		r, err := t.Load(ctx, k)
		if err == nil {
			_, err = decode(k.Name, r.Value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%q was acknowledged: %w", k.Name, err))
		}
	}
	return errors.Join(errs...)
}
