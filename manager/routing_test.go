package manager_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

// routed is a store whose category app.values has one of the homes, chosen by
// the configuration alone.
type routed struct {
	*manager.Manager
	home   string
	clock  *sagetest.Clock
	server *redistest.Server // nil unless the home is one, and then expiry follows its clock
}

// onEveryRouting runs a test with app.values on each home.
func onEveryRouting(t *testing.T, test func(t *testing.T, m routed)) {
	t.Helper()
	for name, c := range map[string]struct {
		home string
		cfg  config.Config
	}{
		"memory":        {home: "memory"},
		"cache in file": {home: "cache", cfg: config.Config{Cache: config.Cache{Driver: "file"}}},
		"cache in redis": {home: "cache", cfg: config.Config{
			// No call may take the way of an outage because the machine is busy.
			Redis: &config.Redis{Timeout: "10s", DialTimeout: "10s"},
		}},
		"database": {home: "database"},
		"file":     {home: "file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := routed{home: c.home, clock: sagetest.NewClock(start)}
			cfg := c.cfg
			cfg.DataDir, cfg.Categories = t.TempDir(), map[string]config.Category{"app.values": {Tier: c.home}}
			if cfg.Redis != nil {
				m.server = redistest.Start(t)
				cfg.Redis.URL = config.Secret(m.server.URL())
				m.Manager = sagetest.OpenWith(t, &cfg, drivers.Tiers())
			} else {
				m.Manager = sagetest.OpenWith(t, &cfg, drivers.Tiers(), manager.WithClock(m.clock))
			}
			if i := value[manager.Item](t)(m.SaveItem(t.Context(), "app.values", "where", 1)); i.Tier != c.home {
				t.Errorf("the category is in %s", i.Tier)
			}
			if value[bool](t)(m.Delete(t.Context(), "app.values", "where")); m.server != nil && m.Health(t.Context()).Degraded {
				t.Error("the server is not in use")
			}
			test(t, m)
		})
	}
}

// left asserts that the key has d to live, and lets that time pass.
func (m routed) left(t *testing.T, c *manager.Collection[string], key string, d time.Duration) {
	t.Helper()
	e := value[manager.Entry[string]](t)(c.Entry(t.Context(), key))
	if m.server == nil {
		if !e.Expires.Equal(m.clock.Now().Add(d)) {
			t.Errorf("%s expires %v, want in %v", key, e.Expires, d)
		}
		m.clock.Advance(d - time.Microsecond)
		value[string](t)(c.Load(t.Context(), key))
		m.clock.Advance(time.Microsecond)
		return
	}
	if left := e.Expires.Sub(tiers.SystemClock().Now()); left > d || left < d-10*time.Second {
		t.Errorf("%s has %v left, want %v", key, left, d)
	}
	if existed := value[bool](t)(c.Touch(t.Context(), key, manager.TTL(5*time.Millisecond))); !existed {
		t.Errorf("%s is not there", key)
	}
	soon(t, key+" has expired", func() bool { return !value[bool](t)(c.Exists(t.Context(), key)) })
}

func TestSaveLoadExistsDeleteOnEveryRouting(t *testing.T) {
	t.Parallel()
	onEveryRouting(t, func(t *testing.T, m routed) {
		t.Helper()
		ctx, c := t.Context(), manager.For[preferences](m, "app.values")
		want := preferences{Theme: "dark", Font: 12}
		must(t, c.Save(ctx, "u", want))
		if got := value[preferences](t)(c.Load(ctx, "u")); got.Theme != want.Theme || got.Font != want.Font {
			t.Errorf("loaded %+v", got)
		}
		if there := value[bool](t)(c.Exists(ctx, "u")); !there {
			t.Error("what was saved is not there")
		}
		if got := keysOf(t, c); len(got) != 1 || got[0] != "u" {
			t.Errorf("listed %q", got)
		}
		if existed := value[bool](t)(c.Delete(ctx, "u")); !existed {
			t.Error("delete says that nothing was there")
		}
		got, err := c.Load(ctx, "u")
		wantError(t, err, tiers.ErrNotFound, "load of what was deleted")
		if e := asError(t, err); got.Theme != "" || e.Op != "load" || e.Tier != m.home || e.Category != "app.values" || e.Key != "u" {
			t.Errorf("it answers %+v with %+v", got, e)
		}
		if existed := value[bool](t)(c.Delete(ctx, "u")); existed {
			t.Error("the second delete says that it was there")
		}
		if there := value[bool](t)(c.Exists(ctx, "u")); there {
			t.Error("what was deleted is there")
		}
		if got := keysOf(t, c); len(got) != 0 {
			t.Errorf("listed %q", got)
		}
	})
}

func TestExpiryOnEveryRouting(t *testing.T) {
	t.Parallel()
	onEveryRouting(t, func(t *testing.T, m routed) {
		t.Helper()
		ctx, c := t.Context(), manager.For[string](m, "app.values")
		for _, over := range []time.Duration{0, -1, -time.Second, -time.Hour} {
			must(t, c.Save(ctx, "never", "v", manager.TTL(over)))
			absent(t, c, "never", "a TTL that is over")
			must(t, c.Save(ctx, "past", "old"))
			must(t, c.Save(ctx, "past", "new", manager.TTL(over)))
			if m.server != nil {
				if keys := m.server.Do("KEYS", "*"); strings.Contains(keys, "past") || strings.Contains(keys, "never") {
					t.Errorf("the server has the key: %q", keys)
				}
			}
			absent(t, c, "past", "a TTL that is over")
		}
		must(t, c.Save(ctx, "stays", "v"))
		must(t, c.Save(ctx, "hour", "v", manager.TTL(3600*time.Second)))
		if e := value[manager.Entry[string]](t)(c.Entry(ctx, "stays")); !e.Expires.IsZero() {
			t.Errorf("without a TTL it expires %v", e.Expires)
		}
		m.left(t, c, "hour", 3600*time.Second)
		absent(t, c, "hour", "after its hour")
		if m.server != nil {
			keys := strings.Fields(m.server.Do("KEYS", "*:stays"))
			if ttl := strings.TrimSpace(m.server.Do("PTTL", keys[len(keys)-1])); ttl != ":-1" {
				t.Errorf("the server has a TTL of %s for a key that has none", ttl)
			}
		}
		m.clock.Advance(10 * 365 * 24 * time.Hour)
		if got := value[string](t)(c.Load(ctx, "stays")); got != "v" {
			t.Errorf("without a TTL: %q", got)
		}
		if got := keysOf(t, c); len(got) != 1 || got[0] != "stays" {
			t.Errorf("listed %q", got)
		}
	})
}

func TestConditionsOnEveryRouting(t *testing.T) {
	t.Parallel()
	onEveryRouting(t, func(t *testing.T, m routed) {
		t.Helper()
		ctx, c := t.Context(), manager.For[string](m, "app.values")
		first := value[manager.Entry[string]](t)(c.SaveEntry(ctx, "k", "a", manager.IfAbsent()))
		wantError(t, c.Save(ctx, "k", "x", manager.IfAbsent()), tiers.ErrExists, "if absent, and it is there")
		second := value[manager.Entry[string]](t)(c.SaveEntry(ctx, "k", "b", manager.IfVersion(first.Version)))
		wantError(t, c.Save(ctx, "k", "x", manager.IfVersion(first.Version)), tiers.ErrConflict, "over the version before")
		_, err := c.Delete(ctx, "k", manager.IfVersion(first.Version))
		wantError(t, err, tiers.ErrConflict, "delete of the version before")
		if got := value[manager.Entry[string]](t)(c.Entry(ctx, "k")); got.Value != "b" || got.Version != second.Version || second.Version <= first.Version {
			t.Errorf("%+v follows version %d", got, first.Version)
		}
		value[bool](t)(c.Delete(ctx, "k", manager.IfVersion(second.Version)))
		_, err = c.Load(ctx, "k")
		if !errors.Is(err, tiers.ErrNotFound) {
			t.Errorf("load of what was deleted: %v", err)
		}
	})
}

// A cut value is worse than none.
func TestLargeValueIsWholeOrRefusedOnEveryRouting(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 10<<20/16)
	onEveryRouting(t, func(t *testing.T, m routed) {
		t.Helper()
		ctx, want := t.Context(), "small"
		save := func(v string) error { // as bytes, since the race detector makes text slow
			return m.Save(ctx, "app.values", "k", manager.Encoded{Codec: "raw", Value: []byte(v)})
		}
		must(t, save(want))
		if err := save(large); err == nil {
			want = large
		} else {
			wantError(t, err, tiers.ErrTooLarge, "save")
		}
		var got []byte
		must(t, m.Load(ctx, "app.values", "k", &got))
		if string(got) != want {
			t.Errorf("loaded %d bytes, want %d", len(got), len(want))
		}
	})
}
