package manager_test

import (
	"context"
	"testing"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/memory"
)

// all are the drivers that need no server.
func all() tiers.Drivers {
	standIn := memory.Driver()
	standIn.Tier, standIn.Name = "cache", "file"
	open := standIn.Open
	standIn.Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
		env.Options = nil
		return open(ctx, env)
	}
	return tiers.Drivers{memory.Driver(), standIn, database.Driver(), file.Driver()}
}

func openDir(t testing.TB, dir string, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	return value[*manager.Manager](t)(manager.OpenDir(t.Context(), dir, all(), opts...))
}

// openEmbedded opens the built-in categories below a directory of the test.
func openEmbedded(t testing.TB, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	m := openDir(t, t.TempDir(), opts...)
	t.Cleanup(func() { closeNow(t, m) })
	return m
}
