package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
)

// raw opens a plain client of the same server.
func raw(t *testing.T, srv *redistest.Server) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: srv.Socket()})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const bucket = "sage:{..test.0}"

func TestWhatIsStoredForATTL(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	const none = -1 // how Redis spells a key without a TTL
	const absent = -2
	for _, c := range []struct {
		why    string
		ttl    time.Duration
		lo, hi int64 // milliseconds
	}{
		{"no TTL is none", 0, none, none},
		{"an hour", time.Hour, 3_500_000, 3_600_000},
		{"negative is absent, not for ever", -time.Second, absent, absent},
		{"-1 ns is not KEEPTTL", -1, absent, absent},
		{"below a millisecond is not none", time.Microsecond, absent, 1},
		{"one nanosecond is not none", 1, absent, 1},
		{"longer than any clock", 1<<63 - 1, 1 << 40, 1 << 62},
	} {
		for _, how := range []string{"save", "overwrite", "touch", "apply"} {
			t.Run(fmt.Sprintf("%s by %s", c.why, how), func(t *testing.T) {
				name := fmt.Sprintf("%s %d", how, c.ttl)
				r := record(name, "v")
				if how == "overwrite" || how == "touch" {
					r.TTL = 10 * time.Minute
					mustSave(t, tier, r)
				}
				r.TTL = c.ttl
				switch how {
				case "touch":
					if existed, err := tier.Touch(t.Context(), key(name), c.ttl); !existed || err != nil {
						t.Fatalf("touch answers %v, %v", existed, err)
					}
				case "apply":
					r.Version = 5
					r.Expires = tiers.Deadline(tiers.SystemClock().Now(), c.ttl)
					if err := tier.Apply(t.Context(), []tiers.Record{r}, nil); err != nil {
						t.Fatal(err)
					}
				default:
					mustSave(t, tier, r)
				}
				got, err := client.Do(t.Context(), "pttl", bucket+":"+name).Int64()
				if err != nil || got < c.lo || got > c.hi {
					t.Errorf("redis has a TTL of %d ms, %v; want %d to %d", got, err, c.lo, c.hi)
				}
				if c.ttl < 0 {
					if n := client.ZScore(t.Context(), bucket, name).Err(); !errors.Is(n, goredis.Nil) {
						t.Error("the index names a key that never was")
					}
				}
			})
		}
	}
}

// A crash at any moment leaves no key without the TTL that it was to have.
func TestNoKeyLosesItsTTLInACrash(t *testing.T) {
	rounds := 3
	if os.Getenv("CI") == "true" {
		rounds = 20
	}
	if n, err := strconv.Atoi(os.Getenv("SAGESTORE_KILLS")); err == nil {
		rounds = n
	}
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "everysec")
	tier := open(t, redis.Options{URL: srv.URL()})
	for round := range rounds {
		if err := tier.Ready(timeout(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		var saved atomic.Int64
		var wg sync.WaitGroup
		for caller := range 8 {
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					r := record(fmt.Sprintf("%d-%d", caller, i%20), strings.Repeat("v", 100+i%500))
					r.TTL = time.Hour
					if _, err := tier.Save(t.Context(), r, tiers.Cond{}); err == nil {
						saved.Add(1)
					}
					if i%7 == 0 {
						_, _ = tier.Touch(t.Context(), r.Key, 2*time.Hour)
					}
				}
			})
		}
		until(t, "saving", func() bool { return saved.Load() > int64(200+37*round) })
		srv.Kill()
		stop.Store(true)
		wg.Wait()
		srv.Restart()
		client := raw(t, srv)
		keys, err := client.Keys(t.Context(), bucket+":*").Result()
		if err != nil || len(keys) == 0 {
			t.Fatalf("after the crash there are %d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if ttl := client.PTTL(t.Context(), k).Val(); ttl <= 0 {
				t.Errorf("%s has the TTL %s", k, ttl)
			}
		}
		if err := tier.Ready(timeout(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		for _, err := range tier.List(t.Context(), tiers.Query{Category: "test"}) {
			if err != nil {
				t.Errorf("after the crash: %v", err)
			}
		}
	}
}

func TestPrefixesAndEpochsSeeNothingOfEachOther(t *testing.T) {
	srv := redistest.Start(t)
	stores := []*redis.Tier{
		open(t, redis.Options{URL: srv.URL(), Prefix: "sage"}),
		open(t, redis.Options{URL: srv.URL(), Prefix: "sage2"}),
		open(t, redis.Options{URL: srv.URL(), Prefix: "sage:x"}),
		open(t, redis.Options{URL: srv.URL(), Prefix: "sage", Epoch: "e1"}),
		open(t, redis.Options{URL: srv.URL(), Prefix: "sage", Epoch: "e2"}),
		open(t, redis.Options{URL: srv.URL() + "/1", Prefix: "sage"}),
	}
	count := func(s *redis.Tier) int {
		n := 0
		for r, err := range s.List(t.Context(), tiers.Query{Category: "test"}) {
			if err != nil {
				t.Fatal(err)
			}
			if r, err := s.Load(t.Context(), r.Key); err != nil || len(r.Value) == 0 {
				t.Error(err)
			}
			n++
		}
		return n
	}
	for i, s := range stores {
		for j := range i + 1 {
			mustSave(t, s, record(fmt.Sprint("k", j), fmt.Sprint("of store ", i)))
		}
	}
	for i, s := range stores {
		if r, err := s.Load(t.Context(), key("k0")); err != nil || string(r.Value) != fmt.Sprint("of store ", i) {
			t.Errorf("store %d has %q, %v", i, r.Value, err)
		}
		if n, err := s.Clear(t.Context()); n != i+1 || err != nil {
			t.Errorf("clearing store %d answers %d, %v", i, n, err)
		}
		for j, other := range stores {
			if want := j + 1; j > i && count(other) != want {
				t.Errorf("after clearing store %d, store %d has %d records, want %d", i, j, count(other), want)
			}
			if j <= i && count(other) != 0 {
				t.Errorf("store %d was cleared and has records", j)
			}
		}
	}
	for i, s := range stores {
		for space, err := range s.Spaces(t.Context()) {
			t.Errorf("store %d, cleared, has %v, %v", i, space, err)
		}
	}
}

func TestDamageIsReportedWithItsKey(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	const n = 200
	for i := range n {
		mustSave(t, tier, record(fmt.Sprintf("k%03d", i), "the value"))
	}
	ctx := t.Context()
	flip := func(offset int64) func(at string) {
		return func(at string) {
			was := client.GetRange(ctx, at, offset, offset).Val()
			client.SetRange(ctx, at, offset, string([]byte{was[0] ^ 'X'}))
		}
	}
	damage := map[string]func(at string){
		"k010": flip(60),                                                                          // the value
		"k020": flip(5),                                                                           // the version
		"k030": flip(28),                                                                          // the expiry
		"k040": flip(42),                                                                          // the flags
		"k050": func(at string) { client.Set(ctx, at, "something else", 0) },                      // not ours
		"k060": func(at string) { client.Set(ctx, at, client.GetRange(ctx, at, 0, 50).Val(), 0) }, // cut off
		"k070": func(at string) { client.Rename(ctx, bucket+":k071", at) },                        // that of another key
		"k080": func(at string) { client.Del(ctx, at); client.LPush(ctx, at, "x") },               // another type
	}
	for name, do := range damage {
		do(bucket + ":" + name)
	}
	all := make([]tiers.Key, n)
	for i := range all {
		all[i] = key(fmt.Sprintf("k%03d", i))
	}
	loaded, err := tier.LoadMany(ctx, all)
	if !errors.Is(err, tiers.ErrCorrupt) {
		t.Errorf("load of many answers %v", err)
	}
	for i, k := range all {
		_, bad := damage[k.Name]
		_, err := tier.Load(ctx, k)
		var typed *tiers.Error
		switch {
		case k.Name == "k071":
			if !errors.Is(err, tiers.ErrNotFound) {
				t.Errorf("%s: %v", k.Name, err)
			}
		case bad:
			if !errors.Is(err, tiers.ErrCorrupt) || !errors.As(err, &typed) || typed.Key != k.Name || typed.Hint == "" {
				t.Errorf("load of %s answers %v", k.Name, err)
			}
			if loaded[i].Version != 0 {
				t.Errorf("load of many answers %s", k.Name)
			}
		case err != nil || loaded[i].Version == 0:
			t.Errorf("%s, which is well: %v, version %d", k.Name, err, loaded[i].Version)
		}
	}
	good, bad := 0, 0
	for r, err := range tier.List(ctx, tiers.Query{Category: "test"}) {
		if r.Name == "" {
			t.Fatalf("the list ended: %v", err)
		}
		if _, damaged := damage[r.Name]; damaged != (err != nil) || err != nil && !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("the list yields %s, %v", r.Name, err)
		}
		if err != nil {
			bad++
		} else {
			good++
		}
	}
	if bad != len(damage) || good != n-len(damage)-1 {
		t.Errorf("the list has %d good and %d bad records", good, bad)
	}
	for name := range damage {
		k := key(name)
		if there, err := tier.Exists(ctx, k); err != nil || !there {
			t.Errorf("exists of %s answers %v, %v", name, there, err)
		}
		if _, err := tier.Save(ctx, record(name, "new"), tiers.If(0)); !errors.Is(err, tiers.ErrExists) {
			t.Errorf("save of %s, if absent, answers %v", name, err)
		}
		// What is damaged can be replaced and deleted.
		if _, err := tier.Save(ctx, record(name, "new"), tiers.Cond{}); err != nil {
			t.Errorf("save over %s answers %v", name, err)
		}
		if r, err := tier.Load(ctx, k); err != nil || string(r.Value) != "new" {
			t.Errorf("then, load answers %q, %v", r.Value, err)
		}
		damage[name](bucket + ":" + name)
		if existed, err := tier.Delete(ctx, k, tiers.Cond{}); err != nil || !existed && name != "k070" {
			t.Errorf("delete of %s answers %v, %v", name, existed, err)
		}
	}
}

// Saves of several callers travel in one script. One that can't be done must
// not take the others along.
func TestSavesThatTravelTogetherAreIndependent(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	if err := client.LPush(t.Context(), "sage:{..broken.0}", "no index").Err(); err != nil {
		t.Fatal(err)
	}
	taken := mustSave(t, tier, record("taken", "v"))
	var wg sync.WaitGroup
	for caller := range 32 {
		wg.Go(func() {
			for i := range 20 {
				r, cond := record(fmt.Sprintf("%d-%d", caller, i), "v"), tiers.Cond{}
				var want error
				switch caller % 8 {
				case 1:
					r.Category, want = "broken", tiers.ErrCorrupt
				case 3:
					r.Name, cond, want = "taken", tiers.If(0), tiers.ErrExists
				case 5:
					r.Name, cond, want = "taken", tiers.If(taken.Version+1), tiers.ErrConflict
				case 7:
					cond = tiers.If(0)
				}
				saved, err := tier.Save(t.Context(), r, cond)
				if !errors.Is(err, want) {
					t.Errorf("caller %d: save answers %v, want %v", caller, err, want)
				}
				if err != nil {
					continue
				}
				if got, err := tier.Load(t.Context(), r.Key); err != nil || got.Version != saved.Version || !got.Created.Equal(saved.Created) {
					t.Errorf("caller %d: load answers version %d, %v; want %d", caller, got.Version, err, saved.Version)
				}
			}
		})
	}
	wg.Wait()
	if n := client.Exists(t.Context(), "sage:{..broken.0}:1-0").Val(); n != 0 {
		t.Error("a save that failed left its value")
	}
}

func TestWithoutAnIndexListsAreUnsupported(t *testing.T) {
	srv := redistest.Start(t)
	no := false
	tier, client := open(t, redis.Options{URL: srv.URL(), Index: &no}), raw(t, srv)
	roundTrip(t, tier)
	if _, err := tier.SaveMany(t.Context(), []tiers.Record{record("a", "v"), record("b", "v")}, nil); err != nil {
		t.Fatal(err)
	}
	for _, err := range tier.List(t.Context(), tiers.Query{Category: "test"}) {
		if !errors.Is(err, tiers.ErrUnsupported) {
			t.Errorf("list yields %v", err)
		}
	}
	if _, _, err := tier.Count(t.Context(), key("").Space()); !errors.Is(err, tiers.ErrUnsupported) {
		t.Errorf("count answers %v", err)
	}
	if n, err := tier.Sweep(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("sweep answers %d, %v", n, err)
	}
	if client.Exists(t.Context(), bucket).Val() != 0 {
		t.Error("there is an index")
	}
	spaces := 0
	for s, err := range tier.Spaces(t.Context()) {
		if err != nil || s.Category != "test" {
			t.Errorf("spaces yields %v, %v", s, err)
		}
		spaces++
	}
	if spaces != 1 {
		t.Errorf("there are %d spaces", spaces)
	}
}

func TestSweepForgetsWhatExpired(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	const n = 1200
	rs := make([]tiers.Record, n)
	for i := range rs {
		rs[i] = record(fmt.Sprintf("k%04d", i), "v")
		if i%2 == 0 {
			rs[i].TTL = 20 * time.Millisecond
		}
	}
	if _, err := tier.SaveMany(t.Context(), rs, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "expired", func() bool { there, err := tier.Exists(t.Context(), rs[n-2].Key); return !there && err == nil })
	removed, calls := 0, 0
	for {
		k, err := tier.Sweep(t.Context(), 250)
		if err != nil {
			t.Fatal(err)
		}
		removed += k
		if calls++; k < 250 || calls > 100 {
			break
		}
	}
	if removed != n/2 || calls != 3 {
		t.Errorf("%d calls removed %d names, want 3 and %d", calls, removed, n/2)
	}
	if left := client.ZCard(t.Context(), bucket).Val(); left != n/2 {
		t.Errorf("%d names are left, want %d", left, n/2)
	}
	if s, err := tier.Stats(t.Context()); err != nil || s.Expired != n/2 || s.Entries != n/2 {
		t.Errorf("stats answers %+v, %v", s, err)
	}
}

func TestBatchLimitIsNamed(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL()})
	ks := make([]tiers.Key, 50_001)
	for i := range ks {
		ks[i] = key(strconv.Itoa(i))
	}
	_, err := tier.DeleteMany(context.Background(), ks, nil)
	if !errors.Is(err, tiers.ErrTooLarge) || !strings.Contains(err.Error(), "50000") {
		t.Errorf("delete of too many answers %v", err)
	}
}
