package manager_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
)

func TestAProgramThatHasEndedIsNotExpectedToMakeTheNextBackup(t *testing.T) {
	clock := sagetest.NewClock(start)
	cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{Enabled: true, Zone: "UTC", Jitter: "none"}}
	open := func(opts ...manager.OpenOption) *manager.Manager {
		t.Helper()
		return value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all(), append(opts, manager.WithClock(clock))...))
	}
	m := open(manager.WithoutJobs())
	defer closeNow(t, m)
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	status := func() manager.BackupStatus {
		t.Helper()
		s := value[manager.BackupStatus](t)(b.Status(t.Context()))
		if h := m.Health(t.Context()); h.NextBackup.IsZero() == s.Watched {
			t.Errorf("watched %v, and health tells of the next at %v", s.Watched, h.NextBackup)
		}
		if s.Plan.At.Before(clock.Now()) {
			t.Errorf("the plan is for %v, which is in the past", s.Plan.At)
		}
		return s
	}
	first, second := open(), open()
	for tries := 0; !status().Watched; time.Sleep(time.Millisecond) {
		if tries++; tries > 30_000 {
			t.Fatal("a program that has the store open is never seen")
		}
	}
	closeNow(t, first)
	if !status().Watched {
		t.Error("the second of two programs is not seen once the first has ended")
	}
	closeNow(t, second)
	if s := status(); s.Watched || s.State.Watched.IsZero() {
		t.Errorf("after their end: watched %v, seen at %v", s.Watched, s.State.Watched)
	}
}

func TestAProgramThatIsSuspendedIsNotExpectedToMakeTheNextBackup(t *testing.T) {
	clock := sagetest.NewClock(start)
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	must(t, os.MkdirAll(jobs, 0o700))
	held := flock.New(filepath.Join(jobs, "backup.watch"))
	if ok := value[bool](t)(held.TryRLock()); !ok {
		t.Fatal("the lock is taken")
	}
	must(t, backup.StateFile(filepath.Join(jobs, "backup.json")).Save(t.Context(), backup.State{Watched: start}))
	cfg := &config.Config{DataDir: dir, Backup: config.Backup{Enabled: true}}
	b := value[*manager.Backups](t)(manager.OpenBackups(t.Context(), cfg, all(), manager.WithClock(clock)))
	defer func() { must(t, b.Close()) }()
	watched := func() bool { return value[manager.BackupStatus](t)(b.Status(t.Context())).Watched }
	if !watched() {
		t.Error("it holds the lock and was seen just now")
	}
	clock.Advance(backup.WatchedFor + time.Second)
	if watched() {
		t.Error("it holds the lock, and notes nothing any more")
	}
	must(t, held.Close())
	must(t, backup.StateFile(filepath.Join(jobs, "backup.json")).Save(t.Context(), backup.State{Watched: clock.Now()}))
	if watched() {
		t.Error("it was seen just now, and its lock is free")
	}
}
