package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// TestConformanceBehindPgBouncer has fewer connections to the server than the stores of
// the suite ask for, so that they are handed from one to the other.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).Bounce(t, "postgres", "default_pool_size=6")
	tiertest.Run(t, tiertest.Config{
		Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
			return Open(ctx, Config{URL: url, Schema: schemaOf(dir), Pool: 4, Pooler: true, Clock: clock})
		},
		Durable: true, Shared: true, Require: everything(),
	})
}

func TestPgBouncerThatWasNotToldOfIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why      string
		settings []string
	}{
		{"it takes no settings of a session", nil},
		{"it passes them over, and keeps no prepared statements", []string{
			"default_pool_size=2", "ignore_startup_parameters=" + strings.Join(slices.Sorted(maps.Keys(Config{}.settings())), ","),
		}},
	} {
		url := pgtest.Shared(t).Bounce(t, "postgres", c.settings...)
		var err error
		var opened []*Tier
		schema := schemaOf(t.TempDir())
		for range 3 { // each finds the statements of another
			var tier *Tier
			if tier, err = Open(t.Context(), Config{URL: url, Schema: schema, Pool: 2}); err != nil {
				break
			}
			opened = append(opened, tier)
			for n := 0; n < 20 && (err == nil || errors.Is(err, tiers.ErrNotFound)); n++ {
				_, err = tier.Load(t.Context(), named("k"))
			}
		}
		if !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "postgres.pooler: true") {
			t.Errorf("%s: it answers %v, want it to name the setting", c.why, err)
		}
		for _, tier := range opened {
			_ = tier.Close(context.Background())
		}
	}
}
