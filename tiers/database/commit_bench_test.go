package database

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// BenchmarkCommit compares transactions with a plain save, by one caller, each of
// them in turn: the ratios are those of the medians. Rows are applied in between.
func BenchmarkCommit(b *testing.B) {
	tier := mustOpen(b, Config{Path: b.TempDir() + "/sage.db"})
	ctx := context.Background()
	for i := range 1000 {
		if _, err := tier.Save(ctx, benchRecord(i, -1), tiers.Cond{}); err != nil {
			b.Fatal(err)
		}
	}
	apply := func(rows []tiers.Row) error { return tier.Done(ctx, rows) }
	id := func(i, kind int) string { return fmt.Sprintf("0198f%07x-%d-7e3f-8a4b-%012x", i, kind, i*7919) }
	kinds := []struct {
		name string
		run  func(i int, r tiers.Record) ([]tiers.Row, error)
	}{
		{"save", func(_ int, r tiers.Record) ([]tiers.Row, error) { return nil, second(tier.Save(ctx, r, tiers.Cond{})) }},
		{"1-save", func(i int, r tiers.Record) ([]tiers.Row, error) {
			_, err := tier.Commit(ctx, tiers.Commit{ID: id(i, 1), Saves: []tiers.Record{r}})
			return nil, err
		}},
		{"1-save-2-rows", func(i int, r tiers.Record) ([]tiers.Row, error) {
			out, err := tier.Commit(ctx, tiers.Commit{ID: id(i, 2), Saves: []tiers.Record{r}, Rows: []tiers.Row{
				{Record: r, Tier: "cache", Owner: "owner"}, {Record: r, Tier: "file", Owner: "owner"},
			}})
			return out.Rows, err
		}},
	}
	times := make([][]time.Duration, len(kinds))
	clock := tiers.SystemClock()
	for i := 0; b.Loop(); i++ {
		for j, kind := range kinds {
			r := benchRecord(i%1000, len(kinds)*i+j)
			start := clock.Now()
			rows, err := kind.run(i, r)
			times[j] = append(times[j], clock.Now().Sub(start))
			if err != nil {
				b.Fatal(err)
			}
			if err := apply(rows); err != nil {
				b.Fatal(err)
			}
		}
	}
	for j, kind := range kinds {
		slices.Sort(times[j])
		median := times[j][len(times[j])/2]
		b.ReportMetric(float64(median.Microseconds()), kind.name+"-µs")
		if j > 0 {
			b.ReportMetric(float64(median)/float64(times[0][len(times[0])/2]), kind.name+"-ratio")
		}
	}
}

func benchRecord(i, round int) tiers.Record {
	return plainJSON(fmt.Sprintf("user/%05d", i), fmt.Sprintf(`{"round":%d,"text":"%s"}`, round, strings.Repeat("x", 1000)))
}
