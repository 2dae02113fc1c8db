package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// kilobyte is a message of 1 KiB.
func kilobyte(i int) agent.Message {
	return agent.NewMessage(agent.User, fmt.Sprintf("%08d", i)+strings.Repeat("x", 1016))
}

// grown is a conversation of n messages on the database.
func grown(b *testing.B, h *house, n int) *agent.Conversation {
	b.Helper()
	c := talk(b, h.Store, "a")
	for i := 0; i < n; i += 500 {
		var ms []agent.Message
		for j := i; j < min(i+500, n); j++ {
			ms = append(ms, kilobyte(j))
		}
		must(h.AppendMessage(b.Context(), c.ID, ms...))(b)
	}
	return c
}

// BenchmarkFlat shows that a message, and a checkpoint after it, cost the same
// however many there are: conversations of several lengths take turns, so that
// what else the machine does hits all of them.
func BenchmarkFlat(b *testing.B) {
	lengths := []int{100, 1000, 10_000}
	houses, talks := make([]*house, len(lengths)), make([]*agent.Conversation, len(lengths))
	for i, n := range lengths {
		houses[i] = open(b, routings()[1])
		many(b, houses[i].Store)
		talks[i] = grown(b, houses[i], n)
	}
	took := make([][2][]time.Duration, len(lengths))
	for i := 0; b.Loop(); i++ {
		for j, h := range houses {
			start := tiers.SystemClock().Now()
			must(h.AppendMessage(b.Context(), talks[j].ID, kilobyte(i)))(b)
			appended := tiers.SystemClock().Now()
			must(h.Checkpoint(b.Context(), agent.CheckpointInfo{AgentID: "a", Kind: agent.Automatic, Iteration: i}))(b)
			took[j][0] = append(took[j][0], appended.Sub(start))
			took[j][1] = append(took[j][1], time.Since(appended))
		}
	}
	for j, n := range lengths {
		for k, what := range []string{"append", "checkpoint"} {
			slices.Sort(took[j][k])
			b.ReportMetric(float64(took[j][k][len(took[j][k])/2].Microseconds()), fmt.Sprintf("%s-at-%d-p50-µs", what, n))
		}
	}
}

// many lets many checkpoints stay.
func many(tb testing.TB, s *agent.Store) {
	tb.Helper()
	p := manager.ConfigOf(sagetest.Open(tb)).Checkpoints
	p.Max = 1 << 30
	ok(tb, s.SetCheckpoints(p))
}

// BenchmarkSharing compares the bytes of a conversation with those of the same with
// a checkpoint after every step: of the records, and of the database.
func BenchmarkSharing(b *testing.B) {
	const steps = 1000
	for b.Loop() {
		var records, disk [2]int64
		for with := range 2 {
			dir := b.TempDir()
			r := routings()[1]
			cfg := r.config(b, dir)
			m, err := manager.Open(b.Context(), cfg, driversOf(cfg))
			ok(b, err)
			s := agent.New(m)
			many(b, s)
			c := talk(b, s, "a")
			for i := range steps {
				must(s.AppendMessage(b.Context(), c.ID, kilobyte(i)))(b)
				if with == 1 {
					must(s.Checkpoint(b.Context(), agent.CheckpointInfo{AgentID: "a", Kind: agent.Automatic, Iteration: i}))(b)
				}
			}
			records[with] = must(s.Stats(b.Context()))(b).Bytes
			ok(b, m.Close(b.Context()))
			for _, f := range must(filepath.Glob(filepath.Join(dir, "sage.db*")))(b) {
				disk[with] += must(os.Stat(f))(b).Size()
			}
		}
		b.ReportMetric(float64(records[1])/float64(records[0]), "records-ratio")
		b.ReportMetric(float64(disk[1])/float64(disk[0]), "disk-ratio")
		b.ReportMetric(float64(disk[0])/steps, "disk-B/message")
	}
}
