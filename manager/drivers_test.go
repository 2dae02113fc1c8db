package manager_test

import (
	"testing"

	"github.com/sagestore/sagestore/internal/routetest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// all are the drivers that need no server: memory, the local cache, SQLite and
// files; or with PostgreSQL in the place of SQLite, see routetest.Drivers.
func all() tiers.Drivers { return routetest.Drivers(embedded.Tiers()) }

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
