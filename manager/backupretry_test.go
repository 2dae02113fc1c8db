package manager_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
)

// afterwards is a bucket that fails only once a backup is published: its parts can't
// be read, or nothing can be removed.
type afterwards struct {
	backup.Bucket
	blind, stuck atomic.Bool
	published    sync.Map
}

func (b *afterwards) Put(ctx context.Context, name string, r io.Reader) error {
	err := b.Bucket.Put(ctx, name, r)
	if id, object, _ := strings.Cut(name, "/"); object == "manifest.json" && err == nil {
		b.published.Store(id, true)
	}
	return err
}

func (b *afterwards) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	id, object, _ := strings.Cut(name, "/")
	if _, there := b.published.Load(id); there && b.blind.Load() && strings.Contains(object, ".zst") {
		return nil, errDown
	}
	return b.Bucket.Get(ctx, name)
}

func (b *afterwards) Delete(ctx context.Context, name string) error {
	if b.stuck.Load() {
		return errDown
	}
	return b.Bucket.Delete(ctx, name)
}

// outcomes counts the attempts of a runner by what it logs of them.
type outcomes struct{ failed, made atomic.Int64 }

func (o *outcomes) WithAttrs([]slog.Attr) slog.Handler { return o }

func (o *outcomes) WithGroup(string) slog.Handler { return o }

func (o *outcomes) Enabled(context.Context, slog.Level) bool { return true }

func (o *outcomes) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "the backup failed":
		o.failed.Add(1)
	case "the backup is made":
		o.made.Add(1)
	}
	return nil
}

func TestWhatFailsAfterTheBackupIsTriedAgainWithoutAnother(t *testing.T) {
	for _, c := range []struct {
		why  string
		fail func(b *afterwards, on bool)
		left int // when it is over
	}{
		{"its rehearsal", func(b *afterwards, on bool) { b.blind.Store(on) }, 2},
		{"its prune", func(b *afterwards, on bool) { b.stuck.Store(on) }, 1},
	} {
		t.Run(c.why, func(t *testing.T) {
			clock, log := sagetest.NewClock(start), &outcomes{}
			bucket := &afterwards{Bucket: backup.Dir(t.TempDir())}
			cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{
				Enabled: true, Interval: "daily", Zone: "UTC", Jitter: "none", Dest: "afterwards://", Rehearse: "always", Keep: config.Keep{Last: c.left},
			}}
			m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all(), manager.WithClock(clock), manager.WithLogger(slog.New(log)),
				manager.WithBuckets(func(context.Context, string) (backup.Bucket, io.Closer, error) { return bucket, nil, nil })))
			defer closeNow(t, m)
			must(t, m.Save(t.Context(), "agent.state", "a", 1))
			b := value[*manager.Backups](t)(m.Backups(t.Context()))
			first := value[manager.BackupRun](t)(b.Run(t.Context(), m))
			if !first.Report.Rehearsed {
				t.Error("the first was not rehearsed")
			}
			count := func() (n int) {
				for _, err := range b.Repo().List(t.Context()) {
					must(t, err)
					n++
				}
				return n
			}
			until := func(what string, ok func() bool) {
				t.Helper()
				for tries := 0; !ok(); time.Sleep(time.Millisecond) {
					if tries++; tries > 30_000 {
						t.Fatalf("waited in vain until %s", what)
					}
				}
			}
			c.fail(bucket, true)
			clock.Advance(16 * time.Hour)
			for n := int64(1); n <= 3; n++ {
				until("it failed", func() bool {
					if log.failed.Load() < n {
						clock.Advance(time.Minute)
					}
					return log.failed.Load() >= n
				})
				if got := count(); got != 2 {
					t.Fatalf("after %d failures there are %d backups", n, got)
				}
			}
			c.fail(bucket, false)
			until("it was made", func() bool {
				if log.made.Load() == 0 {
					clock.Advance(time.Minute)
				}
				return log.made.Load() > 0
			})
			if got := count(); got != c.left {
				t.Errorf("%d backups are left, want %d", got, c.left)
			}
			if e := value[backup.Entry](t)(b.Repo().Latest(t.Context())); e.Rehearsed.IsZero() || e.Manifest.Number != 2 {
				t.Errorf("the newest is %+v", e)
			}
		})
	}
}

func TestARehearsalThatFailsIsNoneInTheReport(t *testing.T) {
	bucket := &afterwards{Bucket: backup.Dir(t.TempDir())}
	bucket.blind.Store(true)
	cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{Dest: "afterwards://"}}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all(),
		manager.WithBuckets(func(context.Context, string) (backup.Bucket, io.Closer, error) { return bucket, nil, nil })))
	defer closeNow(t, m)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	run, err := b.Run(t.Context(), m)
	wantError(t, err, errDown, "the rehearsal failed")
	if run.Manifest.ID == "" || run.Report.Rehearsed {
		t.Errorf("the report says %+v", run.Report)
	}
}

func TestAnEmptyStoreMakesNoBackupUnlessThatIsAllowed(t *testing.T) {
	m := openEmbedded(t)
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	must(t, b.Existing())
	_, err := b.Run(t.Context(), m)
	wantError(t, err, backup.ErrEmpty, "there is nothing to check")
	_, err = m.Backup(t.Context(), nil)
	wantError(t, err, backup.ErrEmpty, "there is nothing to check")
	if _, err := b.Repo().Latest(t.Context()); err == nil {
		t.Error("there is a backup")
	}
	value[manager.BackupRun](t)(b.Run(t.Context(), m, manager.BackupAllowEmpty()))
}

func TestABackupMakesNoStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	b := backupsOf(t, inDir(dir))
	wantError(t, b.Existing(), manager.ErrNoStore, "there is none")
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
}
