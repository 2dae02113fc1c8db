package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
)

// Each save of a merged script has its own deadline.
func TestLateSaveOfAMergedScriptChangesNothing(t *testing.T) {
	srv := redistest.Start(t)
	tier, err := Open(t.Context(), Config{Options: Options{URL: srv.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tier.Close(context.Background()) }()
	save := func(name string, within time.Duration) *call {
		it, err := newSaveItem(&tiers.Record{Key: tiers.Key{Category: "test", Name: name}, Value: []byte("v"), Codec: "raw"}, tiers.Cond{})
		if err != nil {
			t.Fatal(err)
		}
		c := tier.newSave([]saveItem{it}, 0)
		c.stamp.time, c.stamp.deadline = &tier.time, tier.time.now()+within
		return c
	}
	early, late, other := save("early", 10*time.Second), save("late", -time.Second), save("other", 10*time.Second)
	m := tier.merge([]*call{early, late, other})
	m.args = tier.arguments(m)
	cmd := m.command(t.Context())
	began := tier.time.now()
	tier.slots[0].run(t.Context(), []goredis.Cmder{cmd})
	again := tier.settleMerged(m, m.take(cmd), began, tier.time.now())
	if len(again) != 0 {
		t.Errorf("%d calls are to be sent again", len(again))
	}
	for name, c := range map[string]*call{"early": early, "late": late, "other": other} {
		_, err := tier.Load(t.Context(), tiers.Key{Category: "test", Name: name})
		if name == "late" {
			if !errors.Is(c.err, tiers.ErrUnavailable) || !errors.Is(err, tiers.ErrNotFound) {
				t.Errorf("the late save answers %v, load %v", c.err, err)
			}
		} else if c.err != nil || err != nil {
			t.Errorf("%s: save answers %v, load %v", name, c.err, err)
		}
	}
}

func FuzzParseSaved(f *testing.F) {
	f.Add([]byte("k1234567887654321createdAcreatedB"), 2)
	f.Add([]byte("m1234567887654321kxcreatedAcreatedB"), 2)
	f.Add([]byte("f12345678kx"), 2)
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		if n < 1 || n > 100 {
			return
		}
		s, err := parseSaved(text, n)
		if err != nil {
			if !errors.Is(err, tiers.ErrCorrupt) {
				t.Errorf("error is %v", err)
			}
			return
		}
		for i := range n {
			if s.status(i) == 'k' && text[0] != 'f' {
				s.created(i)
			}
		}
	})
}

func FuzzParseReserved(f *testing.F) {
	f.Add([]byte("k12345678"), 1)
	f.Add([]byte("k1234567887654321versionAcreatedAexpiresA"), 1)
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		if n < 1 || n > 100 {
			return
		}
		tier := &Tier{}
		if err := tier.parseReserved(text, make([]tiers.Reservation, n)); err != nil && !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("error is %v", err)
		}
	})
}
