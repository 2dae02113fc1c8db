package manager_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func TestWhatAKilledRunLeftUnpackedIsToldAndSweptByServe(t *testing.T) {
	temp, dataDir := t.TempDir(), t.TempDir()
	backups := func(dataDir string) *manager.Backups {
		cfg := &config.Config{DataDir: dataDir, Backup: config.Backup{Temp: temp}}
		b := value[*manager.Backups](t)(manager.OpenBackups(t.Context(), cfg, all()))
		t.Cleanup(func() { must(t, b.Close()) })
		return b
	}
	b, other := backups(dataDir), backups(t.TempDir())
	sum := sha256.Sum256([]byte(dataDir))
	left := filepath.Join(temp, fmt.Sprintf("sagestore-backup-%x-1", sum[:8]))
	must(t, os.Mkdir(left, 0o700))
	must(t, os.WriteFile(left+".lock", nil, 0o600)) // nobody holds it
	told := func(b *manager.Backups) (n int) {
		for _, f := range value[manager.BackupStatus](t)(b.Status(t.Context())).Findings {
			if f.Subject == "backup: temp" && !f.OK {
				n++
			}
		}
		return n
	}
	if told(b) != 1 {
		t.Error("the status does not tell of it")
	}
	if told(other) != 0 {
		t.Error("the status of another store tells of it")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	// Whoever comes first removes it: it is not encrypted.
	must(t, other.Serve(ctx, func(context.Context) (*manager.Manager, error) { return nil, context.Canceled }))
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if told(b) != 0 {
		t.Error("the status tells of what is gone")
	}
}

func TestADatabaseInMemoryIsSaidToBeNoneToBackUpFromOutside(t *testing.T) {
	cfg := &config.Config{DataDir: t.TempDir(), SQLite: config.SQLite{Path: ":memory:"}}
	b := value[*manager.Backups](t)(manager.OpenBackups(t.Context(), cfg, all()))
	defer func() { must(t, b.Close()) }()
	_, err := b.RunOpening(t.Context(), func(context.Context) (*manager.Manager, error) { return nil, context.Canceled })
	wantError(t, err, tiers.ErrUnsupported, "in the memory of its process")
}
