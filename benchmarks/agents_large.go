package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
)

// agentTable prints what takes long to set up: checkpoints, and searches.
type agentTable struct {
	w   *tabwriter.Writer
	dir string
}

// runAgents measures agents with n messages, and with n checkpoints.
func runAgents(ctx context.Context, dir string, n int) error {
	t := &agentTable{w: tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0), dir: dir}
	for _, part := range []func(context.Context, int) error{t.steps, t.searches, t.checkpoints} {
		if err := part(ctx, n); err != nil {
			return err
		}
		if err := t.w.Flush(); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(os.Stdout)
	}
	return nil
}

func (t *agentTable) row(cells ...any) {
	for _, c := range cells {
		_, _ = fmt.Fprintf(t.w, "%v\t", c)
	}
	_, _ = fmt.Fprintln(t.w)
}

func median(ds []time.Duration) time.Duration {
	ds = slices.Clone(ds)
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// bytesOf are those of the categories of agents.
func bytesOf(ctx context.Context, m *manager.Manager) (sum int64, err error) {
	stats, err := m.Stats(ctx)
	for name, c := range stats.Categories {
		if strings.HasPrefix(name, "agent.") {
			sum += c.Bytes
		}
	}
	return sum, err
}

// steps makes a checkpoint after each of some steps, and compares with the same
// conversation without one.
func (t *agentTable) steps(ctx context.Context, n int) error {
	t.row("checkpoint after each step", "p50 of one", "bytes in all", "conversation alone", "ratio", "must", "whole copies", "")
	for _, steps := range []int{100, 1_000, 10_000} {
		if steps > n {
			break
		}
		var bytes [2]int64
		var copies int64
		var took []time.Duration
		for with := range 2 {
			at, err := os.MkdirTemp(t.dir, "steps-")
			if err != nil {
				return err
			}
			m, s, err := openAgents(ctx, at)
			if err != nil {
				return err
			}
			plan := config.CheckpointPlan{Enabled: true, Interval: time.Hour, Max: 1 << 30, Strategy: "never"}
			if err := s.SetCheckpoints(plan); err != nil {
				return err
			}
			if err := talk(ctx, s, "c", 0, 0); err != nil {
				return err
			}
			for i := range steps {
				if err := appends(s, "c")(ctx, 0, i); err != nil {
					return err
				}
				if with == 0 {
					continue
				}
				begun := time.Now()
				info, err := s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Kind: agent.Automatic, Iteration: i + 1})
				if err != nil {
					return err
				}
				took = append(took, time.Since(begun))
				copies += info.Size
			}
			if bytes[with], err = bytesOf(ctx, m); err != nil {
				return err
			}
			if err := m.Close(ctx); err != nil {
				return err
			}
			_ = os.RemoveAll(at)
		}
		last := took[len(took)-min(len(took), 500):]
		ratio := float64(bytes[1]) / float64(bytes[0])
		p50 := median(last)
		t.row(fmt.Sprintf("  %d steps of 1 KiB", steps), round(p50), mib(bytes[1]), mib(bytes[0]), fmt.Sprintf("%.2fx", ratio), "≤ 1.30x, < 1 ms", mib(copies),
			judged(ratio <= 1.3 && p50 < time.Millisecond))
	}
	return nil
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func judged(within bool) string {
	if within {
		return "ok"
	}
	return "MISSED"
}

// searches looks for what is in few of n messages, in one of a hundred, and in all.
func (t *agentTable) searches(ctx context.Context, n int) error {
	m, s, err := openAgents(ctx, filepath.Join(t.dir, "search"))
	if err != nil {
		return err
	}
	defer func() { _ = m.Close(ctx) }()
	const conversations = 100
	written := 0
	for range conversations {
		c := agent.NewConversation("a")
		for range n / conversations {
			text := words(written) + " everywhere"
			if written%100 == 50 {
				text += " the hundredth"
			}
			if written%(n/10) == n/20 {
				text += " seldom found"
			}
			written++
			c.Add(agent.NewMessage(agent.User, text))
		}
		if err := s.SaveConversation(ctx, c); err != nil {
			return err
		}
	}
	t.row(fmt.Sprintf("search in %d messages of 1 KiB", written), "ours", "scanning them", "measured", "must", "aim", "")
	for _, q := range []struct {
		what string
		agent.Query
	}{
		{"a rare part", agent.Query{Text: "seldom"}},
		{"a phrase, rare", agent.Query{Text: "seldom found"}},
		{"a part in 1 of 100", agent.Query{Text: "hundredth"}},
		{"a part that is everywhere", agent.Query{Text: "everywhere"}},
		{"a rare word, ranked", agent.Query{Text: "seldom", Mode: agent.ByWords}},
		{"a word in 1 of 100, ranked", agent.Query{Text: "hundredth", Mode: agent.ByWords}},
		{"a word that is everywhere, ranked", agent.Query{Text: "everywhere", Mode: agent.ByWords}},
		{"two words, ranked", agent.Query{Text: "everywhere hundredth", Mode: agent.ByWords}},
	} {
		if _, err := s.Search(ctx, q.Query); err != nil {
			return err
		}
		var ours []time.Duration
		for range 15 {
			begun := time.Now()
			hits, err := s.Search(ctx, q.Query)
			if err != nil || len(hits) == 0 {
				return fmt.Errorf("%s: %d hits: %w", q.what, len(hits), err)
			}
			ours = append(ours, time.Since(begun))
		}
		begun := time.Now()
		if err := scan(ctx, m, s, q.Query); err != nil {
			return err
		}
		scan := time.Since(begun)
		ratio := float64(scan) / float64(median(ours))
		verdict := judged(ratio >= 100)
		if n < 100_000 {
			verdict = "" // the bound is for that many
		}
		t.row("  "+q.what, round(median(ours)), scan.Round(time.Millisecond), fmt.Sprintf("%.0fx", ratio), "≥ 100x", "≥ 500x", verdict)
	}
	return nil
}

// scan looks at all messages: for words as a search without an index does, for a part
// by the least that can be done.
func scan(ctx context.Context, m *manager.Manager, s *agent.Store, q agent.Query) error {
	if q.Mode == agent.ByWords {
		return m.View(ctx, func(tx *manager.Tx) error { // which has no index
			_, err := s.In(tx).Search(ctx, q)
			return err
		})
	}
	hits := 0
	for e, err := range manager.For[json.RawMessage](m, "agent.conversations").List(ctx, manager.Prefix("msg/")) {
		var message struct{ Content string }
		if err == nil {
			err = json.Unmarshal(e.Value, &message)
		}
		if err != nil {
			return err
		}
		if strings.Contains(strings.ToLower(message.Content), q.Text) {
			hits++
		}
	}
	if hits == 0 {
		return fmt.Errorf("a scan for %q finds nothing", q.Text)
	}
	return nil
}

// checkpoints lists and prunes n checkpoints of one agent, and as many hundredths.
func (t *agentTable) checkpoints(ctx context.Context, n int) error {
	t.row("checkpoints of one agent", "make one, p50", "the newest", "list 20", "list all", "prune one", "prune all but 10", "")
	for _, count := range []int{n / 100, n} {
		at, err := os.MkdirTemp(t.dir, "checkpoints-")
		if err != nil {
			return err
		}
		m, s, err := openAgents(ctx, at)
		if err != nil {
			return err
		}
		if err := s.SetCheckpoints(config.CheckpointPlan{Enabled: true, Interval: time.Hour, Max: 1 << 30, Strategy: "never"}); err != nil {
			return err
		}
		if err := talk(ctx, s, "c", 10, 0); err != nil {
			return err
		}
		var took []time.Duration
		for i := range count {
			begun := time.Now()
			if _, err := s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Kind: agent.Automatic, Iteration: i + 1}); err != nil {
				return err
			}
			took = append(took, time.Since(begun))
		}
		list := func(limit int) error {
			seen := 0
			for _, err := range s.Checkpoints(ctx, "a", agent.After{Limit: limit}) {
				if err != nil {
					return err
				}
				seen++
			}
			if want := min(max(limit, 0), count); limit > 0 && seen != want {
				return fmt.Errorf("%d checkpoints are listed, want %d", seen, want)
			}
			return nil
		}
		prune := func(keep int) func() error {
			return func() error { _, err := s.Prune(ctx, "a", keep); return err }
		}
		cells := []any{fmt.Sprintf("  %d of them", count), round(median(took))}
		for _, do := range []func() error{
			func() error { _, err := s.LoadCheckpoint(ctx, "a", "latest"); return err },
			func() error { return list(20) },
			func() error { return list(0) },
			prune(count - 1),
			prune(10),
		} {
			begun := time.Now()
			if err := do(); err != nil {
				return err
			}
			cells = append(cells, round(time.Since(begun)))
		}
		t.row(append(cells, "")...)
		if err := m.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}
