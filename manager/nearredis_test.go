package manager_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

// nearOn is a store with near layers on a server.
func nearOn(dir, url string, ttl config.TTL) *config.Config {
	c := &config.Config{
		DataDir: dir, SQLite: config.SQLite{Synchronous: "normal"},
		Redis:      &config.Redis{URL: config.Secret(url)},
		Categories: make(map[string]config.Category),
	}
	for _, home := range []string{"cache", "database", "file"} {
		c.Categories["app."+home] = config.Category{Tier: home, Near: []string{"memory"}, NearTTL: ttl}
		c.Categories["parts."+home] = config.Category{Tier: home, TTL: config.UntilSessionEnds, Near: []string{"memory"}, NearTTL: ttl}
	}
	return c
}

func openOn(t testing.TB, cfg *config.Config, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, drivers.Tiers(), opts...))
	t.Cleanup(func() { closeNow(t, m) })
	return m
}

// channelUp waits until the manager hears others, which it does from its first use
// of a category with a near layer on.
func channelUp(t testing.TB, m *manager.Manager, category string) {
	t.Helper()
	must(t, m.Check(category))
	soon(t, "the channel is up", func() bool { return isUp(m) })
}

// isUp tells whether the manager hears others.
func isUp(m *manager.Manager) bool {
	s, _ := m.Stats(context.Background()) // a server that is away makes it an error
	return s.NearChannel != nil && s.NearChannel.Up
}

func TestProcessesTellEachOtherWhatTheyChange(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, home := range []string{"cache", "database", "file"} {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			ctx, category := t.Context(), "app."+home
			dir := t.TempDir()
			one, other := openOn(t, nearOn(dir, server.URL(), "1h")), openOn(t, nearOn(dir, server.URL(), "1h"))
			notes, theirs := manager.For[note](one, category), manager.For[note](other, category)
			parts, theirParts := manager.For[note](one, "parts."+home), manager.For[note](other, "parts."+home)
			channelUp(t, other, category)
			must(t, notes.Save(ctx, "k", note{N: 1}))
			must(t, parts.Save(ctx, "s/k", note{N: 1}))
			must(t, parts.Save(ctx, "t/k", note{N: 1}))
			reach := func(why string, c *manager.Collection[note], key string, want int) {
				t.Helper()
				soon(t, why+" reaches the other process", func() bool {
					v, err := c.LoadOr(ctx, key, note{})
					return err == nil && v.N == want
				})
			}
			reach("a save", theirs, "k", 1)
			reach("a save", theirParts, "s/k", 1)
			reach("a save", theirParts, "t/k", 1)
			must(t, notes.Save(ctx, "k", note{N: 2}))
			reach("a second save", theirs, "k", 2)
			must(t, notes.SaveMany(ctx, map[string]note{"k": {N: 3}}))
			reach("a batch", theirs, "k", 3)
			must(t, one.Update(ctx, func(tx *manager.Tx) error { return notes.In(tx).Save(ctx, "k", note{N: 4}) }))
			reach("a transaction", theirs, "k", 4)
			must(t, one.Update(ctx, func(tx *manager.Tx) error { return second(notes.In(tx).Delete(ctx, "k")) }))
			reach("a delete by a transaction", theirs, "k", 0)
			must(t, notes.Save(ctx, "k", note{N: 5}))
			reach("a save after it", theirs, "k", 5)
			value[bool](t)(notes.Delete(ctx, "k"))
			reach("a delete", theirs, "k", 0)
			must(t, notes.Save(ctx, "k", note{N: 6}))
			reach("a save after it", theirs, "k", 6)
			value[int](t)(notes.DeleteMany(ctx, "k"))
			reach("a batch of deletes", theirs, "k", 0)
			must(t, notes.Save(ctx, "k", note{N: 7}))
			reach("a save after it", theirs, "k", 7)
			value[bool](t)(notes.Touch(ctx, "k", manager.TTL(-1)))
			reach("a touch", theirs, "k", 0)
			must(t, one.EndSession(ctx, "s"))
			reach("the end of a session", theirParts, "s/k", 0)
			if v := value[note](t)(theirParts.Load(ctx, "t/k")); v.N != 1 {
				t.Errorf("another session has %v", v)
			}
			brief := openOn(t, nearOn(dir, server.URL(), "1h"), manager.WithoutJobs())
			must(t, brief.Save(ctx, category, "k", note{N: 8}))
			reach("a save of a command", theirs, "k", 8)
			s := value[manager.Stats](t)(other.Stats(ctx))
			if n := s.Near[category]; n.Clears > 1 || s.NearChannel.Gaps != 0 || n.Hits == 0 {
				t.Errorf("all was dropped %d times, with %d gaps: each key alone would do", n.Clears, s.NearChannel.Gaps)
			}
		})
	}
}

func published(server *redistest.Server) string {
	calls := regexp.MustCompile(`cmdstat_publish:calls=(\d+)`).FindStringSubmatch(server.Do("INFO", "commandstats"))
	if calls == nil {
		return "0"
	}
	return calls[1]
}

func TestColdReadsSendNoMessages(t *testing.T) {
	t.Parallel()
	ctx, server, dir := t.Context(), redistest.Start(t), t.TempDir()
	plain := nearOn(dir, server.URL(), "1h")
	plain.Categories["app.cache"] = config.Category{Tier: "cache"}
	writer := openOn(t, plain)
	const n = 10_000
	all := make(map[string]note, n)
	for i := range n {
		all[fmt.Sprint(i)] = note{N: i}
	}
	must(t, manager.For[note](writer, "app.cache").SaveMany(ctx, all))
	// On a slow machine some may have gone by the journal, and whoever applies it tells.
	soon(t, "nothing waits", func() bool {
		left, err := writer.ApplyPending(ctx, "cache", false)
		return err == nil && left["cache"] == 0
	})
	m := openOn(t, nearOn(dir, server.URL(), "1h"))
	notes := manager.For[note](m, "app.cache")
	channelUp(t, m, "app.cache")
	before, err := strconv.Atoi(published(server))
	must(t, err)
	var g sync.WaitGroup
	for caller := range 20 {
		g.Go(func() {
			for i := caller; i < n; i += 20 {
				if v, err := notes.Load(ctx, fmt.Sprint(i)); err != nil || v.N != i {
					t.Errorf("loaded %v, %v", v, err)
					return
				}
			}
		})
	}
	g.Wait()
	if got := published(server); got != strconv.Itoa(before) {
		t.Errorf("%d reads sent messages: %d became %s", n, before, got)
	}
	must(t, notes.Save(ctx, "1", note{N: 1}))
	soon(t, "a save sends one", func() bool { return published(server) == strconv.Itoa(before+1) })
	if s := nearStats(t, m, "app.cache"); s.Loads != n || s.Entries < n/2 {
		t.Errorf("counted %+v", s)
	}
}

// While a process can't be told, others change what it holds.
func TestReadAfterTheChannelIsBackIsFresh(t *testing.T) {
	t.Parallel()
	for why, c := range map[string]struct{ cut, mend func(p *redistest.Proxy) }{
		"a connection that is cut": {
			func(p *redistest.Proxy) { p.Refuse(true); p.Cut() },
			func(p *redistest.Proxy) { p.Refuse(false) },
		},
		"a connection on which nothing comes": {
			func(p *redistest.Proxy) { p.Swallow(true) },
			func(p *redistest.Proxy) { p.Swallow(false); p.Cut() },
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			ctx, server, dir := t.Context(), redistest.Start(t), t.TempDir()
			proxy := redistest.NewProxy(t, server.Addr())
			one, other := openOn(t, nearOn(dir, server.URL(), "1h")), openOn(t, nearOn(dir, proxy.URL(), "1h"))
			notes, theirs := manager.For[note](one, "app.database"), manager.For[note](other, "app.database")
			channelUp(t, other, "app.database")
			must(t, notes.Save(ctx, "k", note{N: 1}))
			soon(t, "it is held", func() bool { v, err := theirs.LoadOr(ctx, "k", note{}); return err == nil && v.N == 1 })
			up := func() bool { return isUp(other) }
			c.cut(proxy)
			must(t, notes.Save(ctx, "k", note{N: 2}))
			soon(t, "the process learns that it hears nothing", func() bool { return !up() })
			if v := value[note](t)(theirs.Load(ctx, "k")); v.N != 2 {
				t.Errorf("once that is known a load gives %d", v.N)
			}
			must(t, notes.Save(ctx, "k", note{N: 3}))
			c.mend(proxy)
			soon(t, "the channel is back", up)
			if v := value[note](t)(theirs.Load(ctx, "k")); v.N != 3 {
				t.Errorf("after it is back a load gives %d", v.N)
			}
		})
	}
}

func TestNearLayersOutliveTheirServer(t *testing.T) {
	t.Parallel()
	ctx, server, dir := t.Context(), redistest.Start(t), t.TempDir()
	one, other := openOn(t, nearOn(dir, server.URL(), "1h")), openOn(t, nearOn(dir, server.URL(), "1h"))
	notes, theirs := manager.For[note](one, "app.database"), manager.For[note](other, "app.database")
	cached, theirCached := manager.For[note](one, "app.cache"), manager.For[note](other, "app.cache")
	channelUp(t, one, "app.database")
	channelUp(t, other, "app.database")
	// An answer that is read only after a later call was sent looks as if the server had been
	// there since: with the messages out of the way, the first silence is told for what it is.
	told := func(n int64) {
		t.Helper()
		soon(t, "it is told", func() bool { return value[manager.Stats](t)(one.Stats(ctx)).NearChannel.Sent == n })
	}
	must(t, notes.Save(ctx, "k", note{N: 1}))
	told(1)
	must(t, cached.Save(ctx, "k", note{N: 1}))
	told(2)
	saw := func(why string, want int) {
		t.Helper()
		soon(t, why, func() bool {
			v, err := theirs.LoadOr(ctx, "k", note{})
			c, err2 := theirCached.LoadOr(ctx, "k", note{})
			return err == nil && err2 == nil && v.N == want && c.N == want
		})
	}
	saw("the first saves", 1)

	server.Freeze()
	must(t, notes.Save(ctx, "k", note{N: 2}))
	must(t, cached.Save(ctx, "k", note{N: 2})) // by the journal
	e := value[manager.Entry[note]](t)(cached.Entry(ctx, "k"))
	if e.Value.N != 2 || !e.Stale {
		t.Errorf("the layer answers for a home that is away: %+v", e)
	}
	saw("what the journal holds", 2)
	server.Thaw()
	saw("after the server has woken", 2)

	server.Kill()
	must(t, notes.Save(ctx, "k", note{N: 3}))
	must(t, cached.Save(ctx, "k", note{N: 3}))
	saw("without a server", 3)
	down := false
	for _, f := range other.Diagnose(ctx) {
		down = down || f.Subject == "near layers" && !f.OK && strings.Contains(f.Message, "down") && f.Hint != ""
	}
	if !down {
		t.Error("diagnose does not say that the channel is down")
	}
	server.Restart()
	saw("with the server back", 3)
	soon(t, "the channel is back", func() bool { return isUp(other) })
	must(t, notes.Save(ctx, "k", note{N: 4}))
	must(t, cached.Save(ctx, "k", note{N: 4}))
	saw("as before", 4)
	soon(t, "diagnose says so", func() bool {
		for _, f := range other.Diagnose(ctx) {
			if f.Subject == "near layers" {
				return f.OK
			}
		}
		return false
	})
}

func TestSaveIntoTheDatabaseWaitsForNoChannel(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.Start(t)
	c := nearOn(t.TempDir(), server.URL(), "1h")
	c.Redis.Timeout = "2m" // much longer than a busy machine takes for a save
	m := openOn(t, c)
	notes := manager.For[note](m, "app.database")
	channelUp(t, m, "app.database")
	server.Freeze()
	defer server.Thaw()
	began := tiers.SystemClock().Now()
	for n := range 5 {
		must(t, notes.Save(ctx, "k", note{N: n}))
	}
	if took := tiers.SystemClock().Now().Sub(began); took > time.Minute {
		t.Errorf("saves into the database waited %s for the channel", took)
	}
}

func TestNearEntryOfAServerDiesByTheServersClock(t *testing.T) {
	t.Parallel()
	ctx, server, dir := t.Context(), redistest.Start(t), t.TempDir()
	one, other := openOn(t, nearOn(dir, server.URL(), "1h")), openOn(t, nearOn(dir, server.URL(), "1h"))
	notes, theirs := manager.For[note](one, "app.cache"), manager.For[note](other, "app.cache")
	// served answers for how long after its end the record was found.
	served := func(c *manager.Collection[note]) (late time.Duration) {
		must(t, notes.Save(ctx, "k", note{N: 1}, manager.TTL(400*time.Millisecond)))
		end, gone := tiers.SystemClock().Now().Add(400*time.Millisecond), false
		for !gone && late < 10*time.Second {
			began := tiers.SystemClock().Now()
			_, err := c.Load(ctx, "k")
			if gone = errors.Is(err, tiers.ErrNotFound); !gone {
				must(t, err)
				late = max(late, began.Sub(end))
			}
		}
		return late
	}
	for _, c := range []*manager.Collection[note]{notes, theirs} {
		late := served(c)
		for try := 0; late > 100*time.Millisecond && try < 5; try++ { // a busy machine is not late each time
			late = min(late, served(c))
		}
		if late > 100*time.Millisecond {
			t.Errorf("it is served %s after its end", late)
		}
	}
	must(t, notes.Save(ctx, "forever", note{N: 1}))
	if e := value[manager.Entry[note]](t)(theirs.Entry(ctx, "forever")); !e.Expires.IsZero() {
		t.Errorf("a record that never expires ends at %s", e.Expires)
	}
}

func TestMessagesOfOtherStoresMeanNothing(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.Start(t)
	one, stranger := openOn(t, nearOn(t.TempDir(), server.URL(), "1h")), openOn(t, nearOn(t.TempDir(), server.URL(), "1h"))
	notes := manager.For[note](one, "app.database")
	channelUp(t, one, "app.database")
	must(t, notes.Save(ctx, "k", note{N: 1}))
	value[note](t)(notes.Load(ctx, "k"))
	must(t, stranger.Save(context.WithoutCancel(ctx), "app.database", "k", note{N: 2}))
	soon(t, "the stranger has told of it", func() bool { return published(server) == "2" })
	if s := value[manager.Stats](t)(one.Stats(ctx)); s.NearChannel.Heard != 0 || s.Near["app.database"].Drops != 0 {
		t.Errorf("a stranger was heard: %+v", s.NearChannel)
	}
}
