//go:build !unix

package database

import "github.com/gofrs/flock"

// fileLock is an advisory lock of a file. It dies with its holder.
type fileLock struct{ lock *flock.Flock }

func openLock(path string) (*fileLock, error) {
	return &fileLock{lock: flock.New(path, flock.SetPermissions(0o600))}, nil
}

// try takes the lock, or changes its kind, when nobody is in the way.
func (l *fileLock) try(exclusive bool) (bool, error) {
	if l.lock.Locked() || l.lock.RLocked() {
		if err := l.lock.Unlock(); err != nil {
			return false, err
		}
	}
	if exclusive {
		return l.lock.TryLock()
	}
	return l.lock.TryRLock()
}

func (l *fileLock) unlock() error { return l.lock.Unlock() }

func (l *fileLock) close() error { return l.lock.Close() }
