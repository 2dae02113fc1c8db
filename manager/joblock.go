package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// lockJob takes the lock of a job, which ends with this process. While somebody
// else has it, unlock is nil and owner says who, as far as they wrote it down.
func lockJob(dir, name string, now time.Time) (unlock func(), owner string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, name+".lock")
	// Open for reading and writing, what is a pipe holds nobody up.
	lock := flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, "", errors.Join(err, lock.Close())
	}
	if !ok {
		text, _ := os.ReadFile(path) //nolint:gosec // for display only; not knowing it is no error
		if owner = strings.TrimSpace(string(text)); owner != "" && len(owner) < 200 {
			owner = ": " + owner
		} else {
			owner = ""
		}
		return nil, owner, lock.Close()
	}
	host, _ := os.Hostname() // for display only
	text := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, now.UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, "", errors.Join(err, lock.Close())
	}
	return func() {
		_ = os.Truncate(path, 0) // for display only: the next owner is named or nobody
		_ = lock.Close()         // gives the lock back
	}, "", nil
}

// lockedBy answers who has the lock of the backups; "" when nobody has.
func lockedBy(dir string) string {
	path := filepath.Join(dir, "backup.lock")
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	if closing := lock.Close(); free || err != nil || closing != nil {
		return ""
	}
	text, _ := os.ReadFile(path) //nolint:gosec // for display only; not knowing it is no error
	if owner := strings.TrimSpace(string(text)); owner != "" && len(owner) < 200 {
		return owner
	}
	return "another process"
}
