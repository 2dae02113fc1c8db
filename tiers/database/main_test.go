package database

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/crashtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

var crashing = crashtest.Store{
	Name: "database",
	Open: func(ctx context.Context, dir string) (tiers.Tier, error) {
		return Open(ctx, Config{Path: filepath.Join(dir, "sage.db")})
	},
}

func TestMain(m *testing.M) {
	crashtest.Main(crashing)
	if dir := os.Getenv(envCount); dir != "" {
		os.Exit(countAsChild(dir))
	}
	goleak.VerifyTestMain(m)
}

// openIn opens the database of a directory. Power cuts have tests of their own, so
// that nothing here waits for the disk.
func openIn(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
	path := filepath.Join(dir, "sage.db")
	if err := makeNew(path); err != nil {
		return nil, err
	}
	return Open(ctx, Config{Path: path, Synchronous: Normal, Clock: clock})
}

// newDatabase is the file that Open leaves of a new database: most tests need not
// make it themselves.
var newDatabase = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "sagestore-new-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "sage.db")
	tier, err := Open(context.Background(), Config{Path: path})
	if err != nil {
		return nil, err
	}
	if err := tier.Close(context.Background()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// makeNew makes a new database unless there is one.
func makeNew(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	db, err := newDatabase()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return err
	}
	_, err = f.Write(db)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	// Of several who open it at once one is the first.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Remove(f.Name())
}

func openMemory(ctx context.Context, _ string, clock tiers.Clock) (tiers.Tier, error) {
	return Open(ctx, Config{Path: Memory, Clock: clock})
}

func everything() []tiertest.Capability {
	return []tiertest.Capability{
		tiertest.Applier, tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper,
		tiertest.Pinger, tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser, tiertest.Snapshotter,
		tiertest.Searcher, tiertest.TopSearcher,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	tiertest.Run(t, tiertest.Config{Open: openIn, Durable: true, Shared: true, Require: everything()})
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	tiertest.Run(t, tiertest.Config{Open: openMemory, Require: everything()})
}

func TestSystem(t *testing.T) { tiertest.RunSystem(t, openIn) }

func BenchmarkTier(b *testing.B) {
	tiertest.Bench(b, tiertest.Config{Open: openIn, Durable: true, Shared: true})
}

func TestCarrier(t *testing.T) { tiertest.RunCarrier(t, openIn) }

func TestSwitcher(t *testing.T) { tiertest.RunSwitcher(t, openIn) }

func TestSwitcherInMemory(t *testing.T) { tiertest.RunSwitcher(t, openMemory) }
