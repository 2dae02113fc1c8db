package manager_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// onEveryRouting runs a test with app.values on each home, chosen by the
// configuration alone.
func onEveryRouting(t *testing.T, test func(t *testing.T, m *manager.Manager, clock *sagetest.Clock)) {
	t.Helper()
	for _, home := range []string{"memory", "cache", "database", "file"} {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			clock := sagetest.NewClock(start)
			cfg := &config.Config{DataDir: t.TempDir(), Categories: map[string]config.Category{"app.values": {Tier: home}}}
			m := sagetest.OpenWith(t, cfg, all(), manager.WithClock(clock))
			test(t, m, clock)
			if i := value[manager.Item](t)(m.SaveItem(t.Context(), "app.values", "where", 1)); i.Tier != home {
				t.Errorf("the category is in %s", i.Tier)
			}
		})
	}
}

func TestBaseStoreOnEveryRouting(t *testing.T) {
	t.Parallel()
	onEveryRouting(t, func(t *testing.T, m *manager.Manager, _ *sagetest.Clock) {
		t.Helper()
		ctx, c := t.Context(), manager.For[any](m, "app.values")
		values := map[string]any{"null": nil, "text": "", "map": map[string]any{}, "list": []any{}, "zero": map[string]any{"n": ""}}
		for key, v := range values {
			must(t, c.Save(ctx, key, v))
		}
		for key, want := range values {
			if got, err := c.Load(ctx, key); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %#v, %v, want %#v", key, got, err, want)
			}
			if ok := value[bool](t)(c.Exists(ctx, key)); !ok {
				t.Errorf("%s is not there", key)
			}
			if existed := value[bool](t)(c.Delete(ctx, key)); !existed {
				t.Errorf("%s was not there", key)
			}
			_, err := c.Load(ctx, key)
			wantError(t, err, tiers.ErrNotFound, "after the delete")
			if existed := value[bool](t)(c.Delete(ctx, key)); existed {
				t.Errorf("%s was there twice", key)
			}
		}
	})
}

func TestExpiryOnEveryRouting(t *testing.T) {
	t.Parallel()
	onEveryRouting(t, func(t *testing.T, m *manager.Manager, clock *sagetest.Clock) {
		t.Helper()
		ctx, c := t.Context(), manager.For[string](m, "app.values")
		must(t, c.Save(ctx, "hour", "v", manager.TTL(time.Hour)))
		must(t, c.Save(ctx, "past", "old"))
		must(t, c.Save(ctx, "past", "v", manager.TTL(-time.Second)))
		must(t, c.Save(ctx, "other", "v"))
		absent(t, c, "past", "a TTL that is over")
		clock.Advance(time.Hour - time.Second)
		value[string](t)(c.Load(ctx, "hour"))
		clock.Advance(time.Second)
		absent(t, c, "hour", "after its hour")
		clock.Advance(10 * 365 * 24 * time.Hour)
		if got := value[string](t)(c.Load(ctx, "other")); got != "v" {
			t.Errorf("without a TTL: %q", got)
		}
	})
}
