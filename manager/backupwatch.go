package manager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/sagestore/sagestore/backup"
)

// watchName is the file that whatever makes backups by itself holds a shared lock on.
// A lock ends with its process, however that ends, so nobody has to take back that it
// was there.
const watchName = "backup.watch"

// watch says, until release, that something is here that makes backups by itself.
// Several may be.
func watch(jobs string) (release func(), err error) {
	if err := os.MkdirAll(jobs, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(jobs, watchName), flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	for range lockTries {
		ok, err := lock.TryRLock()
		switch {
		case err != nil:
			return nil, errors.Join(err, lock.Close())
		case ok:
			return func() { _ = lock.Close() }, nil // gives the lock back
		}
		<-time.After(lockPause) // somebody looks, which takes no time
	}
	return nil, errors.Join(errors.New("its lock stays taken"), lock.Close())
}

// watched tells whether anything is there that makes backups by itself.
func watched(jobs string) bool {
	path := filepath.Join(jobs, watchName)
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		return false
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	for range 3 { // others who look have it for an instant
		free, err := lock.TryLock()
		if free || err != nil {
			_ = lock.Close() // it was only looked at
			return false
		}
		<-time.After(lockPause / 5)
	}
	_ = lock.Close() // nothing is held
	return true
}

// runner is what makes backups by itself, and the word that it is there.
type runner struct {
	*backup.Runner

	release func()
	ended   atomic.Bool
}

func (c *core) watching(r *backup.Runner) *runner {
	release, err := watch(c.jobsDir())
	if err != nil {
		c.log.Warn("others can't see that backups are made by this process", "error", err)
		release = func() {}
	}
	return &runner{Runner: r, release: release}
}

// Close closes the runner, and takes back that it is there once it has ended.
func (r *runner) Close(ctx context.Context) error {
	err := r.Runner.Close(ctx)
	if err == nil && r.ended.CompareAndSwap(false, true) {
		r.release()
	}
	return err
}

// watches tells whether something that makes backups by itself is there, and lives: one
// that is suspended notes nothing. While a backup is under way nothing is noted, too.
func (b *Backups) watches(st backup.State, underWay string, now time.Time) bool {
	if b.core.runner != nil && !b.core.runner.ended.Load() {
		return true
	}
	if !watched(b.core.jobsDir()) {
		return false
	}
	return underWay != "" || !st.Watched.IsZero() && now.Sub(st.Watched).Abs() <= backup.WatchedFor
}

// planned answers what comes next, after what is under way.
func (b *Backups) planned(st backup.State, underWay string, now time.Time) backup.Plan {
	if underWay != "" {
		next := b.schedule.Next(now)
		return backup.Plan{Run: next, At: next, Try: 1}
	}
	return b.schedule.Plan(b.schedule.Observe(st, now), now)
}
