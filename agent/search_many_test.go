package agent_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
)

// TestTheBestOfVeryManyAreThoseOfAScan asks a store where words and parts are in so
// many messages that a search by the index does not look at them all, and compares
// with a transaction, which has no index.
func TestTheBestOfVeryManyAreThoseOfAScan(t *testing.T) {
	m := onDatabase(t, t.TempDir(), func(c *config.Config) { c.SQLite.Synchronous = "normal" })
	t.Cleanup(func() { ok(t, m.Close(t.Context())) })
	s := agent.New(m)
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(3, 4))
	vocabulary := []string{"apple", "Apple", "plum", "pear", "quince", "數據庫", "überall", "medlar"}
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// Two conversations are long; times follow the sequence in most, in some
	// they are all the same, or go back.
	for i := range 24 {
		owner := fmt.Sprint("agent-", i%3)
		if i < 3 {
			ok(t, s.Save(ctx, agent.NewState(owner, "", "")))
		}
		c := agent.NewConversation(owner)
		if i%4 == 1 {
			c.Tags = []string{"tagged"}
		}
		length := 12
		if i == 20 || i == 22 {
			length = 280
		}
		for j := range length {
			text := []string{"everywhere"}
			for range 1 + rng.IntN(6) {
				text = append(text, vocabulary[min(rng.IntN(len(vocabulary)), rng.IntN(len(vocabulary)))])
			}
			message := agent.NewMessage(agent.Roles()[rng.IntN(3)], strings.Join(text, " "))
			switch i % 5 {
			case 3:
				message.At = begun.Add(2000 * time.Second)
			case 4:
				message.At = begun.Add(time.Duration(rng.IntN(1000)) * 300 * time.Microsecond)
			default:
				message.At = begun.Add(time.Duration(i*40+j) * time.Second)
			}
			c.Add(message)
		}
		ok(t, s.SaveConversation(ctx, c))
		if i%6 == 5 {
			ok(t, s.Archive(ctx, c.ID, true))
		}
	}
	texts := []string{"everywhere", "apple", "APPLE plum", "everywhere pear plum", "數據庫", "數據", "medlar", "medlar quince apple", "rywhe", "ple pl", "überall", "nowhere"}
	for n := range 14 {
		q := agent.Query{
			Text: texts[rng.IntN(len(texts))], Mode: agent.Modes()[rng.IntN(2)],
			Limit: new([]int{1, 3, 20}[rng.IntN(3)]),
		}
		if n < 4 { // what is in most messages
			q = agent.Query{Text: "everywhere", Mode: agent.Modes()[n%2], Limit: new([]int{20, 20, 1, 1}[n])}
		}
		if n >= 4 && rng.IntN(3) == 0 {
			q.AgentID = fmt.Sprint("agent-", rng.IntN(3))
		}
		switch rng.IntN(6) * min(n/4, 1) {
		case 1:
			q.Role = agent.Roles()[rng.IntN(4)]
		case 5:
			q.Tag = "tagged"
		case 2:
			q.Since = begun.Add(time.Duration(rng.IntN(900)) * time.Second)
		case 3:
			q.Until = begun.Add(time.Duration(rng.IntN(900)) * time.Second)
		case 4:
			q.Archived = new(rng.IntN(2) == 0)
		}
		by := must(s.Search(ctx, q))(t)
		var scanned []agent.Hit
		ok(t, m.View(ctx, func(tx *manager.Tx) (err error) {
			scanned, err = s.In(tx).Search(ctx, q)
			return err
		}))
		if d := cmp.Diff(scanned, by); d != "" {
			t.Fatalf("%+v, limit %d: the index answers otherwise than the scan:\n%s", q, *q.Limit, d)
		}
	}
}
