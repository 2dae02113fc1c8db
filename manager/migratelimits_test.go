package manager_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/routetest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// narrow is a tier that takes small values only, or no records as they are.
type narrow struct {
	tiers.Tier
	maxValue int64
	applies  bool
}

// Describe implements tiers.Describer.
func (n narrow) Describe() tiers.Info {
	i := tiers.Describe(n.Tier)
	i.MaxValue = n.maxValue
	return i
}

// As hides what the tier can't do.
func (n narrow) As(target any) bool {
	switch x := target.(type) {
	case *tiers.Describer:
		*x = n
		return true
	case *tiers.Applier:
		if !n.applies {
			return false
		}
		a, ok := tiers.As[tiers.Applier](n.Tier)
		*x = a
		return ok
	}
	return false
}

func TestMigrationIsRefusedByATierThatCantTakeTheRecords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, says string
		tier      narrow
		want      error
	}{
		{"a value is too large", `"large": 20002 bytes, tier file takes 1000`, narrow{maxValue: 1000, applies: true}, tiers.ErrTooLarge},
		{"it takes no records as they are", "has to offer tiers.Applier", narrow{}, tiers.ErrUnsupported},
	} {
		g := migration{dir: t.TempDir()}
		m := g.open(t, "database")
		must(t, m.Save(t.Context(), movedCategory, "large", strings.Repeat("x", 20000)))
		must(t, m.Save(t.Context(), movedCategory, "small", "x"))
		closeNow(t, m)
		want := g.records(t, "database", "database")
		drivers := everyTier()
		for i, d := range drivers {
			if d.Tier == "file" {
				open := d.Open
				drivers[i].Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
					n := c.tier
					var err error
					n.Tier, err = open(ctx, env)
					return n, err
				}
			}
		}
		_, err := manager.MigrateCategory(t.Context(), g.config("file"), drivers, movedCategory, manager.MigrateOptions{Stopped: routetest.OnPostgres()})
		wantError(t, err, c.want, c.why)
		if !contains(err, c.says) {
			t.Errorf("%s: %v does not say %s", c.why, err, c.says)
		}
		equalRecords(t, g.records(t, "database", "database"), want, c.why)
	}
}
