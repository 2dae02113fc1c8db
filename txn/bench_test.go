package txn_test

import (
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// BenchmarkJournaled shows what the journal adds to calls while nothing waits.
func BenchmarkJournaled(b *testing.B) {
	w := newWorld(b, tiers.SystemClock())
	j := w.open()
	for name, t := range map[string]tiers.Tier{"inner": w.inner, "journaled": j} {
		r := rec("k", "value")
		b.Run("load/"+name, func(b *testing.B) {
			if _, err := t.Save(b.Context(), r, tiers.Cond{}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Load(b.Context(), r.Key); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("save/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Save(b.Context(), r, tiers.Cond{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
