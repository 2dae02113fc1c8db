package manager_test

import (
	"strconv"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
)

// What the manager adds to a call of the tier: the same bytes saved and loaded
// directly, through a collection, and without a type. The codec's share is
// measured apart: envelope, checksum and copy.
func BenchmarkOverhead(b *testing.B) {
	ctx := b.Context()
	cfg := config.InMemory()
	cfg.Categories = map[string]config.Category{"app.bytes": {Codec: "raw"}, "app.session": {Codec: "raw", TTL: config.UntilSessionEnds}}
	m := value[*manager.Manager](b)(manager.Open(ctx, cfg, tiers.Drivers{memory.Driver()}))
	defer closeNow(b, m)
	tier := value[*memory.Tier](b)(memory.Open(ctx, memory.Config{}))
	defer closeNow(b, tier)
	c := manager.For[[]byte](m, "app.bytes")
	s := manager.For[[]byte](m, "app.session")

	const n = 1000
	keys, values := make([]string, n), make([][]byte, n)
	for i := range n {
		keys[i], values[i] = "session/"+strconv.Itoa(i), make([]byte, 1024)
		values[i][0] = byte(i)
		must(b, c.Save(ctx, keys[i], values[i]))
		must(b, s.Save(ctx, keys[i], values[i]))
		value[tiers.Record](b)(tier.Save(ctx, tiers.Record{Key: tiers.Key{Category: "app.bytes", Name: keys[i]}, Value: values[i], Codec: "raw", Schema: 1}, tiers.Cond{}))
	}
	run := func(name string, do func(i int) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := do(i % n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	codecs := value[*serializer.Registry](b)(serializer.New())
	encoded := value[tiers.Record](b)(codecs.Encode(tiers.Key{Category: "app.bytes", Name: "k"}, values[0], serializer.Options{Codec: "raw"}))
	run("save/codec", func(i int) error {
		_, err := codecs.Encode(tiers.Key{Category: "app.bytes", Name: keys[i]}, values[i], serializer.Options{Codec: "raw"})
		return err
	})
	run("load/codec", func(int) error { return codecs.Decode(encoded, new([]byte)) })
	run("save/tier", func(i int) error {
		_, err := tier.Save(ctx, tiers.Record{Key: tiers.Key{Category: "app.bytes", Name: keys[i]}, Value: values[i], Codec: "raw", Schema: 1}, tiers.Cond{})
		return err
	})
	run("save/collection", func(i int) error { return c.Save(ctx, keys[i], values[i]) })
	run("save/session", func(i int) error { return s.Save(ctx, keys[i], values[i]) })
	run("save/untyped", func(i int) error { return m.Save(ctx, "app.bytes", keys[i], values[i]) })
	run("load/tier", func(i int) error {
		_, err := tier.Load(ctx, tiers.Key{Category: "app.bytes", Name: keys[i]})
		return err
	})
	run("load/collection", func(i int) error {
		_, err := c.Load(ctx, keys[i])
		return err
	})
	run("load/session", func(i int) error {
		_, err := s.Load(ctx, keys[i])
		return err
	})
	run("exists/collection", func(i int) error {
		_, err := c.Exists(ctx, keys[i])
		return err
	})
}

// What a transaction costs beside a plain save that is as durable.
func BenchmarkUpdate(b *testing.B) {
	ctx, m := b.Context(), openFour(b)
	cs := four(m)
	n := 0
	run := func(name string, do func(v int) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				must(b, do(n))
			}
		})
	}
	run("save/database", func(v int) error { return cs[2].Save(ctx, "k", v) })
	for i, tier := range fourTiers {
		run("update/"+tier, func(v int) error {
			return m.Update(ctx, func(tx *manager.Tx) error { return cs[i].In(tx).Save(ctx, "k", v) })
		})
	}
	run("update/all", func(v int) error {
		return m.Update(ctx, func(tx *manager.Tx) error {
			for _, c := range cs {
				if err := c.In(tx).Save(ctx, "k", v); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
