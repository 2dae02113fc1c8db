package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
)

// savers is how many callers save while a backup is made, and pause how long each of
// them rests after a save: they stand for an app that is busy, not for one that takes
// all that the disk has.
const (
	savers = 8
	pause  = 5 * time.Millisecond
)

// stored is a store to back up: a database, most of it, and a tree of files.
type stored struct {
	dir   string
	db    *database.Tier
	files *file.Tier
}

func openStored(ctx context.Context, dir string) (*stored, error) {
	db, err := database.Open(ctx, database.Config{Path: filepath.Join(dir, "sage.db")})
	if err != nil {
		return nil, err
	}
	files, err := file.Open(ctx, file.Config{BasePath: filepath.Join(dir, "data")})
	if err != nil {
		return nil, errors.Join(err, db.Close(ctx))
	}
	return &stored{dir: dir, db: db, files: files}, nil
}

func (s *stored) close(ctx context.Context) error {
	return errors.Join(s.files.Close(ctx), s.db.Close(ctx))
}

// fill saves records of 1 KiB, of which zstd makes about a half, and a file for every
// thousand of them.
func (s *stored) fill(ctx context.Context, size int64) error {
	const batch = 1000
	for i := int64(0); i < size>>10; i += batch {
		rs := make([]tiers.Record, batch)
		for j := range rs {
			rs[j] = tiers.Record{Key: tiers.Key{Category: "bench.records", Name: fmt.Sprintf("key-%012d", i+int64(j))}, Codec: "raw", Schema: 1, Value: halfRandom()}
		}
		if _, err := s.db.SaveMany(ctx, rs, nil); err != nil {
			return err
		}
		r := tiers.Record{Key: tiers.Key{Category: "bench.files", Name: fmt.Sprint("file-", i)}, Codec: "raw", Schema: 1, Value: halfRandom()}
		if _, err := s.files.Save(ctx, r, tiers.Cond{}); err != nil {
			return err
		}
	}
	return nil
}

func halfRandom() []byte {
	b := make([]byte, 1<<10)
	_, _ = rand.Read(b[:len(b)/2]) // never fails
	return b
}

// freeze answers the store as the parts of a backup.
func (s *stored) freeze(ctx context.Context) (backup.Source, error) {
	var files tiers.Frozen
	frozen, err := s.db.Freeze(ctx, func(ctx context.Context) (err error) {
		files, err = s.files.Freeze(ctx, nil)
		return err
	})
	if err != nil {
		return backup.Source{}, err
	}
	return backup.Source{Parts: []backup.Part{
		{Name: "database", Path: "sage.db", Frozen: frozen}, {Name: "file", Path: "data", Frozen: files},
	}}, nil
}

// save saves from several callers into the database until the context ends, and
// answers how long each save took.
func (s *stored) save(ctx context.Context) (took []time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range savers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r := tiers.Record{Key: tiers.Key{Category: "bench.saved", Name: fmt.Sprintf("key-%d-%d", caller, i%100)}, Codec: "raw", Schema: 1, Value: halfRandom()}
				begun := time.Now()
				_, failed := s.db.Save(context.WithoutCancel(ctx), r, tiers.Cond{})
				one := time.Since(begun)
				mu.Lock()
				took, err = append(took, one), errors.Join(err, failed)
				mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took, err
}

func p99(sorted []time.Duration) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)*99/100]
}

// effort is what something took: time, the part of it that the process computed, on all
// cores, the most memory that was in use, and the most that the process had at all, with
// what it had mapped of files.
type effort struct {
	took, computed time.Duration
	most           uint64
	resident       int64 // bytes, VmHWM; -1: the system does not tell
}

// timed answers what fn took.
func timed(fn func() error) (e effort, err error) {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // else it is the highest since the start
	done, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			e.most = max(e.most, m.HeapInuse+m.StackInuse)
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	begun, before := time.Now(), computed()
	err = fn()
	e.took, e.computed = time.Since(begun), computed()-before
	close(done)
	<-looked
	e.resident = highWater()
	return e, err
}

// highWater answers the most memory that the process has had.
func highWater() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return -1
	}
	return kib << 10
}

// computed answers for how long the process has computed so far.
func computed() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// copyTree copies the files of a directory as they are and syncs each.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, path[len(from):])
		if e.IsDir() {
			return os.MkdirAll(at, 0o700)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		out, err := os.Create(at)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Sync(), out.Close())
	})
}

// runBackup measures making, verifying and restoring a backup of a store of that size
// beside copying and syncing the same files.
func runBackup(ctx context.Context, dir string, size int64) error {
	at := filepath.Join(dir, "store")
	s, err := openStored(ctx, at)
	if err != nil {
		return err
	}
	if err := s.fill(ctx, size); err != nil {
		return errors.Join(err, s.close(ctx))
	}
	// Opened again, so that the log is in the file and both sides copy the same.
	if err := s.close(ctx); err != nil {
		return err
	}
	copied, err := timed(func() error { return copyTree(at, filepath.Join(dir, "copied")) })
	if err != nil {
		return err
	}
	if s, err = openStored(ctx, at); err != nil {
		return err
	}
	defer func() { _ = s.close(ctx) }()
	repo, err := backup.Open(backup.Dir(filepath.Join(dir, "backups")), backup.Options{
		Copies: []tiers.Copies{database.Copies(), file.Copies()}, Temp: dir,
		Decode: func(context.Context, tiers.Record) error { return nil },
	})
	if err != nil {
		return err
	}
	create := func() (backup.Manifest, error) {
		source, err := s.freeze(ctx)
		if err != nil {
			return backup.Manifest{}, err
		}
		m, _, err := repo.Create(ctx, source)
		return m, err
	}
	var m backup.Manifest
	made, err := timed(func() (err error) { m, err = create(); return err })
	if err != nil {
		return err
	}
	held := m.Held
	verified, err := timed(func() error { _, err := repo.Verify(ctx, m.ID, false); return err })
	if err != nil {
		return err
	}
	restored, err := timed(func() error {
		_, err := repo.Restore(ctx, m.ID, backup.RestoreOptions{To: filepath.Join(dir, "restored")})
		return err
	})
	if err != nil {
		return err
	}
	quiet, cancel := context.WithTimeout(ctx, max(made.took, 3*time.Second))
	without, err := s.save(quiet)
	cancel()
	if err != nil {
		return err
	}
	busy, cancel := context.WithCancel(ctx)
	var with []time.Duration
	var savedErr error
	var wg sync.WaitGroup
	wg.Go(func() { with, savedErr = s.save(busy) })
	beside, err := timed(func() (err error) { m, err = create(); return err })
	cancel()
	wg.Wait()
	if err := errors.Join(err, savedErr); err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d MiB, stored in %d MiB\ttook\tby copying and syncing\tcomputing\tmost memory\tVmHWM\tmust\taim\t\n", m.Bytes()>>20, m.Stored()>>20)
	line := func(what string, e effort) {
		fmt.Fprintf(w, "%s\t%v\t%.2fx of %v\t%v\t%d MiB\t%d MiB\t≤ 4x, 200 MiB\t≤ 2.5x\t\n", what, e.took.Round(time.Millisecond),
			float64(e.took)/float64(copied.took), copied.took.Round(time.Millisecond), e.computed.Round(time.Millisecond), e.most>>20, e.resident>>20)
	}
	line("create and verify", made)
	line("verify", verified)
	line("restore and verify", restored)
	line(fmt.Sprintf("create while %d callers save", savers), beside)
	fmt.Fprintf(w, "longest hold of commits\t%v\t\t\t\t\t≤ 50ms\t\t\n", max(held, m.Held).Round(10*time.Microsecond))
	fmt.Fprintf(w, "p99 of saves without, with a backup\t%v, %v\t%.2fx\t\t\t\t≤ 2x\t\t\n", p99(without), p99(with), float64(p99(with))/float64(p99(without)))
	return w.Flush()
}
