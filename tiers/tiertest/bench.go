package tiertest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// Sizes of the benchmarks.
const (
	benchValue = 1 << 10 // bytes
	benchKeys  = 10_000
	benchBatch = 100
)

// Bench measures saves, loads, batches and lists of 1 KiB values, with one
// caller and with several. Saved values always differ from what is stored. A
// batch or a list counts as one operation.
func Bench(b *testing.B, c Config) {
	b.Helper()
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("save/callers=%d", callers), func(b *testing.B) {
			h := openFor(b, c)
			parallel(b, callers, benchValue, func(n uint64) error {
				_, err := h.Save(b.Context(), benchRecord(n), tiers.Cond{})
				return err
			})
		})
		b.Run(fmt.Sprintf("load/callers=%d", callers), func(b *testing.B) {
			h := openFor(b, c)
			fillFor(b, h)
			parallel(b, callers, benchValue, func(n uint64) error {
				_, err := h.Load(b.Context(), benchKey(n))
				return err
			})
		})
	}
	for _, callers := range []int{1, 8} {
		b.Run(fmt.Sprintf("save100/callers=%d", callers), func(b *testing.B) {
			h := openFor(b, c)
			parallel(b, callers, benchBatch*benchValue, func(n uint64) error {
				rs := make([]tiers.Record, benchBatch)
				for i := range rs {
					rs[i] = benchRecord(n*benchBatch + uint64(i))
				}
				_, err := tiers.SaveMany(b.Context(), h, rs, nil)
				return err
			})
		})
		b.Run(fmt.Sprintf("load100/callers=%d", callers), func(b *testing.B) {
			h := openFor(b, c)
			fillFor(b, h)
			parallel(b, callers, benchBatch*benchValue, func(n uint64) error {
				ks := make([]tiers.Key, benchBatch)
				for i := range ks {
					ks[i] = benchKey(n*benchBatch + uint64(i))
				}
				_, err := tiers.LoadMany(b.Context(), h, ks)
				return err
			})
		})
		b.Run(fmt.Sprintf("list100/callers=%d", callers), func(b *testing.B) {
			h := openFor(b, c)
			fillFor(b, h)
			parallel(b, callers, benchBatch*benchValue, func(n uint64) error {
				q := tiers.Query{Category: category, After: benchKey(n).Name, Limit: benchBatch}
				for _, err := range h.List(b.Context(), q) {
					if err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func openFor(b *testing.B, c Config) tiers.Tier {
	b.Helper()
	h, err := c.Open(b.Context(), b.TempDir(), tiers.SystemClock())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := h.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	return h
}

func fillFor(b *testing.B, h tiers.Tier) {
	b.Helper()
	const chunk = 500
	for from := uint64(0); from < benchKeys; from += chunk {
		rs := make([]tiers.Record, chunk)
		for i := range rs {
			rs[i] = benchRecord(from + uint64(i))
		}
		if _, err := tiers.SaveMany(b.Context(), h, rs, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// parallel spreads b.N operations over callers and reports the bytes of each.
func parallel(b *testing.B, callers int, bytes int64, op func(n uint64) error) {
	b.Helper()
	b.SetBytes(bytes)
	b.ReportAllocs()
	var next atomic.Uint64
	limit := uint64(b.N) //nolint:gosec // not negative
	done := make(chan error, callers)
	b.ResetTimer()
	for range callers {
		go func() {
			for n := next.Add(1); n <= limit; n = next.Add(1) {
				if err := op(n); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
}

// benchKey spreads the numbers over the keys, out of order.
func benchKey(n uint64) tiers.Key {
	return named(fmt.Sprintf("user-%06d", n*7919%benchKeys))
}

// benchRecord differs from every other one in its value.
func benchRecord(n uint64) tiers.Record {
	value := make([]byte, benchValue)
	for i := 0; i < len(value); i += 8 {
		binary.LittleEndian.PutUint64(value[i:], n<<20+uint64(i))
	}
	binary.LittleEndian.PutUint64(value, rand.Uint64()) //nolint:gosec // not a secret
	return tiers.Record{Key: benchKey(n), Value: value, Codec: "raw", Schema: 1}
}
