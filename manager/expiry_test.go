package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// absent checks every way to ask for a key.
func absent(t testing.TB, c *manager.Collection[string], key, why string) {
	t.Helper()
	ctx := t.Context()
	_, err := c.Load(ctx, key)
	wantError(t, err, tiers.ErrNotFound, why+": load")
	if ok, err := c.Exists(ctx, key); ok || err != nil {
		t.Errorf("%s: exists answers %v, %v", why, ok, err)
	}
	if got := keysOf(t, c, manager.Prefix(key)); len(got) != 0 {
		t.Errorf("%s: list has %q", why, got)
	}
	if got := value[map[string]string](t)(c.LoadMany(ctx, key)); len(got) != 0 {
		t.Errorf("%s: load many has %v", why, got)
	}
	if existed, err := c.Touch(ctx, key, manager.Forever()); existed || err != nil {
		t.Errorf("%s: touch answers %v, %v", why, existed, err)
	}
	if existed, err := c.Delete(ctx, key); existed || err != nil {
		t.Errorf("%s: delete answers %v, %v", why, existed, err)
	}
}

func TestExpiredIsAbsentSweptOrNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		m := sagetest.Open(t, manager.WithoutJobs())
		c := manager.For[string](m, "session.preferences")
		must(t, c.Save(ctx, "k", "v", manager.TTL(time.Hour)))
		must(t, c.Save(ctx, "other", "v"))
		time.Sleep(time.Hour - time.Millisecond)
		if ok := value[bool](t)(c.Exists(ctx, "k")); !ok {
			t.Error("it went too early")
		}
		time.Sleep(time.Millisecond)
		absent(t, c, "k", "expired")
		must(t, c.Save(ctx, "k", "again", manager.IfAbsent()))
		time.Sleep(10 * 365 * 24 * time.Hour)
		if got := value[string](t)(c.Load(ctx, "other")); got != "v" {
			t.Errorf("without a TTL it is kept: %q", got)
		}
	})
}

func TestTTLThatIsOverMakesTheKeyAbsentAtOnce(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(start)
	c := manager.For[string](sagetest.Open(t, manager.WithClock(clock)), "session.preferences")
	for _, life := range []manager.Life{manager.TTL(0), manager.TTL(-time.Hour), manager.ExpiresAt(start), manager.ExpiresAt(start.Add(-1))} {
		must(t, c.Save(ctx, "k", "old"))
		must(t, c.Save(ctx, "k", "new", life))
		absent(t, c, "k", "a TTL that is over")
		must(t, c.Save(ctx, "k", "old"))
		if existed := value[bool](t)(c.Touch(ctx, "k", life)); !existed {
			t.Error("the touched key was there")
		}
		absent(t, c, "k", "touched with a TTL that is over")
	}
}

func TestShortTTLExpires(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(start)
	c := manager.For[string](sagetest.Open(t, manager.WithClock(clock)), "session.preferences")
	must(t, c.Save(ctx, "k", "v", manager.TTL(500*time.Microsecond)))
	clock.Advance(499 * time.Microsecond)
	value[string](t)(c.Load(ctx, "k"))
	clock.Advance(time.Microsecond)
	absent(t, c, "k", "a TTL below a millisecond")
}

func TestLifetimeOfACallAndOfACategory(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(start)
	cfg := config.InMemory()
	cfg.Categories = map[string]config.Category{"app.short": {TTL: "90s"}}
	c := manager.For[string](sagetest.OpenWith(t, cfg, all(), manager.WithClock(clock)), "app.short")
	cases := []struct {
		why  string
		opts []manager.SaveOption
		want time.Time
	}{
		{"the category's", nil, start.Add(90 * time.Second)},
		{"the call's", []manager.SaveOption{manager.TTL(time.Hour)}, start.Add(time.Hour)},
		{"an instant", []manager.SaveOption{manager.ExpiresAt(start.Add(time.Minute))}, start.Add(time.Minute)},
		{"for ever", []manager.SaveOption{manager.Forever()}, time.Time{}},
		{"the zero instant is for ever, as in an entry", []manager.SaveOption{manager.ExpiresAt(time.Time{})}, time.Time{}},
	}
	for _, c2 := range cases {
		e := value[manager.Entry[string]](t)(c.SaveEntry(ctx, "k", "v", c2.opts...))
		if !e.Expires.Equal(c2.want) {
			t.Errorf("%s: expires %v, want %v", c2.why, e.Expires, c2.want)
		}
	}
	value[bool](t)(c.Touch(ctx, "k"))
	after := value[manager.Entry[string]](t)(c.Entry(ctx, "k"))
	if !after.Expires.Equal(start.Add(90 * time.Second)) {
		t.Errorf("touch without an option gives the category's TTL, not %v", after.Expires)
	}
	clock.Advance(time.Minute)
	value[string](t)(c.Load(ctx, "k"))
	if got := value[manager.Entry[string]](t)(c.Entry(ctx, "k")); !got.Expires.Equal(after.Expires) || got.Version != after.Version {
		t.Error("a load moved the expiry or the version")
	}
}

func TestSweepRemovesWhatHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		m := sagetest.Open(t, manager.WithoutJobs())
		c := manager.For[string](m, "session.preferences")
		for _, k := range []string{"a", "b", "c"} {
			must(t, c.Save(ctx, k, "v", manager.TTL(time.Second)))
		}
		must(t, c.Save(ctx, "other", "v"))
		time.Sleep(2 * time.Second)
		if n, err := m.Sweep(ctx); n != 3 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		if n, err := m.Sweep(ctx); n != 0 || err != nil {
			t.Errorf("swept %d again, %v", n, err)
		}
	})
}
