package manager_test

import (
	"context"
	"slices"
	"testing"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// lossy is a tier that says it has stored what it has not.
type lossy struct {
	tiers.Tier

	keep func(r *tiers.Record) bool
}

func (l lossy) As(target any) bool {
	switch to := target.(type) {
	case *tiers.Applier:
		*to = l
		return true
	case *tiers.Describer:
		*to = l
		return true
	}
	return false
}

func (l lossy) Describe() tiers.Info { return tiers.Describe(l.Tier) }

func (l lossy) Apply(ctx context.Context, rs []tiers.Record, _ []tiers.Cond) error {
	inner, _ := tiers.As[tiers.Applier](l.Tier)
	rs = slices.DeleteFunc(slices.Clone(rs), func(r tiers.Record) bool { return !l.keep(&r) })
	for i := range rs {
		l.keep(&rs[i])
	}
	return inner.Apply(ctx, rs, nil)
}

func TestRecordsThatDoNotArriveStayWhereTheyWere(t *testing.T) {
	t.Parallel()
	for why, keep := range map[string]func(r *tiers.Record) bool{
		"did not arrive": func(r *tiers.Record) bool { return r.Name != "s-ttl" },
		"arrived changed": func(r *tiers.Record) bool {
			if r.Name == "s-ttl" {
				r.Value = []byte(`"y"`)
			}
			return true
		},
	} {
		g := migration{dir: t.TempDir()}
		g.fill(t, "database")
		want := g.records(t, "database", "database")
		drivers := slices.Clone(everyTier())
		for i, d := range drivers {
			if d.Tier == "file" {
				drivers[i].Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
					inner, err := d.Open(ctx, env)
					return lossy{inner, keep}, err
				}
			}
		}
		_, err := manager.MigrateCategory(t.Context(), g.config("file"), drivers, movedCategory, manager.MigrateOptions{Stopped: true})
		wantError(t, err, tiers.ErrCorrupt, why)
		if !contains(err, why) || !contains(err, `"s-ttl" in namespace acme`) {
			t.Errorf("%s: %v", why, err)
		}
		equalRecords(t, g.records(t, "database", "database"), want, why)
	}
}
