package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

// knownFile, in the directory of the jobs, is the id of the store of which the last good
// backup was made here. A database that was lost is made anew by whoever opens the store
// next, and would be taken for it.
const knownFile = "backup.store"

var idForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// known answers the id; "" when nothing is known.
func (c *core) known() (string, error) {
	b, err := os.ReadFile(filepath.Join(c.jobsDir(), knownFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if id := strings.TrimSpace(string(b)); err == nil && idForm.MatchString(id) {
		return id, nil
	}
	return "", err // what is damaged tells nothing, and is written anew by the next backup
}

// know remembers it.
func (c *core) know(id string) error {
	if was, err := c.known(); err != nil || was == id {
		return err
	}
	if err := os.MkdirAll(c.jobsDir(), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.jobsDir())
	if err != nil {
		return err
	}
	const beside = knownFile + ".new"
	err = root.WriteFile(beside, []byte(id+"\n"), 0o600)
	if err == nil {
		err = root.Rename(beside, knownFile)
	}
	return errors.Join(err, filetree.SyncRoot(root), root.Close())
}

// ownID answers the id of the store; "" when no backup was ever made of it.
func (c *core) ownID(ctx context.Context) (string, error) {
	id, err := c.system.Fact(ctx, factStore)
	if errors.Is(err, tiers.ErrNotFound) {
		return "", nil
	}
	return string(id), err
}

// sameStore refuses to go on with backups of what is not the store that they were of.
func (c *core) sameStore(ctx context.Context) error {
	known, err := c.known()
	if err != nil || known == "" {
		return err
	}
	own, err := c.ownID(ctx)
	if err != nil || own == known {
		return err
	}
	return tiers.Hint(conflict.Errorf("%s", anotherStore(own, known)), newStoreHint)
}

const newStoreHint = "when it was lost, `sagestore backup restore latest` brings it back; when the new one is meant, run `sagestore backup create --new-store`"

func anotherStore(own, known string) string {
	if own == "" {
		own = "a new one"
	}
	return fmt.Sprintf("the store is %s, and the backups until now are of %s", own, known)
}

// BackupNewStore makes a backup of a store which is not the one that the backups until now
// were of: that is a conflict otherwise, since a database that was lost looks like that.
func BackupNewStore() BackupOption {
	return backupOption(func(o *backupOptions) { o.newStore = true })
}
