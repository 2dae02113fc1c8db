package redis_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
)

// ways are the ways to save a record; each takes another path to the server.
func ways(t *testing.T, tier *redis.Tier) map[string]func(name string, ttl time.Duration) tiers.Record {
	t.Helper()
	many := func(cs func(rs []tiers.Record) []tiers.Cond) func(string, time.Duration) tiers.Record {
		return func(name string, ttl time.Duration) tiers.Record {
			rs := []tiers.Record{record(name, "first of two"), record("beside", "v"), record(name, "v")}
			for i := range rs {
				rs[i].TTL = ttl
			}
			out, err := tier.SaveMany(t.Context(), rs, cs(rs))
			if err != nil {
				t.Fatal(err)
			}
			if out[0].Version >= out[1].Version || out[1].Version >= out[2].Version {
				t.Errorf("the versions of a batch are %d, %d, %d", out[0].Version, out[1].Version, out[2].Version)
			}
			return out[2]
		}
	}
	return map[string]func(name string, ttl time.Duration) tiers.Record{
		"save": func(name string, ttl time.Duration) tiers.Record {
			r := record(name, "v")
			r.TTL = ttl
			return mustSave(t, tier, r)
		},
		"conditional save": func(name string, ttl time.Duration) tiers.Record {
			r := record(name, "v")
			r.TTL = ttl
			old, _ := tier.Load(t.Context(), r.Key)
			r, err := tier.Save(t.Context(), r, tiers.If(old.Version))
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		"save of many": many(func([]tiers.Record) []tiers.Cond { return nil }),
		"conditional save of many": many(func(rs []tiers.Record) []tiers.Cond {
			old, _ := tier.Load(t.Context(), rs[0].Key)
			return []tiers.Cond{tiers.If(old.Version), {}, {}}
		}),
	}
}

// The mark is ahead of the clock when the clock was set back.
func TestVersionsFollowAMarkAheadOfTheClock(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	last := mustSave(t, tier, record("k", "v")).Version + tiers.Version(time.Hour.Microseconds())
	for range 3 {
		for name, save := range ways(t, tier) {
			mark := binary.BigEndian.AppendUint64(nil, uint64(last))
			if err := client.Set(t.Context(), "sage:{}:mark", mark, 0).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r := save("k", 0)
				if r.Version <= last {
					t.Errorf("%s: version %d follows %d", name, r.Version, last)
				}
				last = r.Version
				if got, err := tier.Load(t.Context(), r.Key); err != nil || got.Version != r.Version {
					t.Errorf("%s: load answers version %d, %v; want %d", name, got.Version, err, r.Version)
				}
			}
		}
	}
}

// A mark beyond what a script can count with would give all saves one version.
func TestADamagedMarkDoesNotStopVersionsFromGrowing(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	last := mustSave(t, tier, record("k", "v")).Version
	for _, mark := range []string{
		"", "x", "longer than a mark is", "\x00\x20\x00\x00\x00\x00\x00\x00", "\x00\x80\x00\x00\x00\x00\x00\x00",
		"\x7f\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		for name, save := range ways(t, tier) {
			if err := client.Set(t.Context(), "sage:{}:mark", mark, 0).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				v := save("k", 0).Version
				if v <= last || v > last+tiers.Version(time.Hour.Microseconds()) {
					t.Errorf("%q, %s: version %d follows %d", mark, name, v, last)
				}
				last = v
			}
		}
	}
}

// It would be the floor of all versions to come, and stand in the way of what
// is newer.
func TestARecordWithAnImpossibleVersionIsDamaged(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	saved := mustSave(t, tier, record("k", "v"))
	where := "sage:{..test.0}:k"
	for _, offset := range []int64{2, 34} {
		if err := client.SetRange(t.Context(), where, offset, "\x40").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tier.Load(t.Context(), saved.Key); !errors.Is(err, tiers.ErrCorrupt) {
		t.Errorf("load: %v, want corrupt", err)
	}
	if seen := tier.Seen(); seen > saved.Version+tiers.Version(time.Hour.Microseconds()) {
		t.Errorf("the highest version seen is %d", seen)
	}
	newer := saved
	newer.Version++
	if err := tier.Apply(t.Context(), []tiers.Record{newer}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := tier.Load(t.Context(), saved.Key); err != nil || got.Version != newer.Version {
		t.Errorf("after a newer one: version %d, %v", got.Version, err)
	}
}

func TestSaveAnswersWhatIsStored(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL()})
	for name, save := range ways(t, tier) {
		for _, ttl := range []time.Duration{0, 50 * time.Second, 1234567 * time.Microsecond, 90_000 * 24 * time.Hour, 1<<63 - 1} {
			key := fmt.Sprint(name, ttl)
			first := save(key, time.Hour)
			for _, r := range []tiers.Record{save(key, ttl), save(key, ttl)} {
				if !r.Created.Equal(first.Created) {
					t.Errorf("%s: created %s became %s", key, first.Created, r.Created)
				}
				first = r
			}
			got, err := tier.Load(t.Context(), first.Key)
			if err != nil || got.Version != first.Version || !got.Created.Equal(first.Created) || !got.Updated.Equal(first.Updated) ||
				!got.Expires.Equal(first.Expires) || string(got.Value) != "v" {
				t.Errorf("%s: save answers %+v, load %+v, %v", key, first, got, err)
			}
			if ttl == 0 != first.Expires.IsZero() {
				t.Errorf("%s expires %s", key, first.Expires)
			}
		}
	}
}

// A save passes over the index when the record that it replaces says that its
// key is there.
func TestSaveEntersTheIndexWhenTheOneBeforeDidNot(t *testing.T) {
	srv := redistest.Start(t)
	no := false
	with, without := open(t, redis.Options{URL: srv.URL()}), open(t, redis.Options{URL: srv.URL(), Index: &no})
	evicting, client := open(t, redis.Options{URL: srv.URL(), AllowEviction: true}), raw(t, srv)
	listed := func() map[string]bool {
		names := make(map[string]bool)
		for r, err := range with.List(t.Context(), tiers.Query{Category: "test"}) {
			if err != nil {
				t.Fatal(err)
			}
			names[r.Name] = true
		}
		return names
	}
	for name, save := range ways(t, with) {
		mustSave(t, without, record(name, "v"))
		if listed()[name] {
			t.Errorf("%s: a save without an index entered one", name)
		}
		save(name, 0)
		save(name, 0)
		if !listed()[name] {
			t.Errorf("%s did not enter the index", name)
		}
	}
	for name, save := range ways(t, evicting) {
		save(name, 0)
		client.Del(t.Context(), bucket, "sage:{}:spaces")
		save(name, 0)
		if !listed()[name] {
			t.Errorf("%s did not enter the index after that was evicted", name)
		}
		if n := client.SCard(t.Context(), "sage:{}:spaces").Val(); n != 1 {
			t.Errorf("%s: there are %d spaces", name, n)
		}
	}
}

func TestDamagedHeadDecidesNothing(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	const version, created, again = 6, 14, 32 // offsets, and how far behind they come again
	for name, save := range map[string]func(r tiers.Record, c tiers.Cond) (tiers.Record, error){
		"save": func(r tiers.Record, c tiers.Cond) (tiers.Record, error) { return tier.Save(t.Context(), r, c) },
		"save of many": func(r tiers.Record, c tiers.Cond) (tiers.Record, error) {
			out, err := tier.SaveMany(t.Context(), []tiers.Record{record("beside", "v"), r}, []tiers.Cond{{}, c})
			return out[1], err
		},
	} {
		for _, at := range []int64{version, created, version + again, created + again} {
			k := fmt.Sprint(name, at)
			old := mustSave(t, tier, record(k, "v"))
			client.SetRange(t.Context(), bucket+":"+k, at, "XXX")
			if _, err := save(record(k, "w"), tiers.If(old.Version)); !errors.Is(err, tiers.ErrCorrupt) {
				t.Errorf("%s: a save for version %d answers %v", k, old.Version, err)
			}
			r, err := save(record(k, "w"), tiers.Cond{})
			if err != nil || !r.Created.Equal(r.Updated) {
				t.Errorf("%s: a save was created %s, updated %s, %v", k, r.Created, r.Updated, err)
			}
			if got, err := tier.Load(t.Context(), r.Key); err != nil || !got.Created.Equal(r.Created) {
				t.Errorf("%s: then, load answers created %s, %v", k, got.Created, err)
			}
		}
	}
}
