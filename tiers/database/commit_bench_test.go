package database

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// BenchmarkCommit compares a transaction over three tiers with a plain save, by one
// caller. Rows are applied outside of the measured time.
func BenchmarkCommit(b *testing.B) {
	open := func(b *testing.B) *Tier {
		b.Helper()
		tier := mustOpen(b, Config{Path: b.TempDir() + "/sage.db"})
		for i := range 1000 {
			if _, err := tier.Save(context.Background(), benchRecord(i, -1), tiers.Cond{}); err != nil {
				b.Fatal(err)
			}
		}
		return tier
	}
	b.Run("save", func(b *testing.B) {
		tier := open(b)
		for i := 0; b.Loop(); i++ {
			if _, err := tier.Save(context.Background(), benchRecord(i%1000, i), tiers.Cond{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, drain := range []bool{true, false} {
		b.Run(fmt.Sprintf("one save and two rows/applied=%v", drain), func(b *testing.B) {
			tier := open(b)
			for i := 0; b.Loop(); i++ {
				r := benchRecord(i%1000, i)
				out, err := tier.Commit(context.Background(), tiers.Commit{
					ID:    fmt.Sprintf("0198f%07x-1c2d-7e3f-8a4b-%012x", i, i*7919),
					Saves: []tiers.Record{r},
					Rows: []tiers.Row{
						{Record: benchRecord(i%1000, i), Tier: "cache", Owner: "owner"},
						{Record: benchRecord(i%1000, i), Tier: "file", Owner: "owner"},
					},
				})
				if err != nil {
					b.Fatal(err)
				}
				if drain && i%16 == 15 {
					b.StopTimer()
					for _, name := range []string{"cache", "file"} {
						rows, err := tier.Due(context.Background(), name, 0, 100)
						if err != nil {
							b.Fatal(err)
						}
						if err := tier.Done(context.Background(), rows); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
				}
				_ = out
			}
		})
	}
}

func benchRecord(i, round int) tiers.Record {
	return plainJSON(fmt.Sprintf("user/%05d", i), fmt.Sprintf(`{"round":%d,"text":"%s"}`, round, strings.Repeat("x", 1000)))
}
