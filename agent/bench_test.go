package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
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

// BenchmarkAppend shows that a message costs the same however many there are.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := open(b, routings()[1])
			c := grown(b, h, n)
			for i := 0; b.Loop(); i++ {
				must(h.AppendMessage(b.Context(), c.ID, kilobyte(i)))(b)
			}
		})
	}
}

// BenchmarkCheckpoint shows what a checkpoint after every step costs.
func BenchmarkCheckpoint(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := open(b, routings()[1])
			many(b, h.Store)
			c := grown(b, h, n)
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				must(h.AppendMessage(b.Context(), c.ID, kilobyte(i)))(b)
				b.StartTimer()
				must(h.Checkpoint(b.Context(), agent.CheckpointInfo{AgentID: "a", Iteration: i}))(b)
			}
		})
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
