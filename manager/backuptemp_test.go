package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
)

func TestWhatAKilledRunLeftUnpackedIsToldAndSweptByServe(t *testing.T) {
	temp := t.TempDir()
	left := filepath.Join(temp, "sagestore-backup-1")
	must(t, os.Mkdir(left, 0o700))
	must(t, os.WriteFile(left+".lock", nil, 0o600)) // nobody holds it
	cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{Temp: temp}}
	b := value[*manager.Backups](t)(manager.OpenBackups(t.Context(), cfg, all()))
	defer func() { must(t, b.Close()) }()
	told := func() (n int) {
		for _, f := range value[manager.BackupStatus](t)(b.Status(t.Context())).Findings {
			if f.Subject == "backup: temp" && !f.OK {
				n++
			}
		}
		return n
	}
	if told() != 1 {
		t.Error("the status does not tell of it")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	must(t, b.Serve(ctx, func(context.Context) (*manager.Manager, error) { return nil, context.Canceled }))
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if told() != 0 {
		t.Error("the status tells of what is gone")
	}
}
