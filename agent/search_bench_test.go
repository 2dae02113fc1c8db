package agent_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
)

// BenchmarkSearch searches 100,000 messages of 1 KiB, or SAGESTORE_MESSAGES of them,
// in 100 conversations of 10 agents: by the index, and in a transaction, which has
// none. What is looked for is in 10 messages, in 1 of 100, and in all of them.
func BenchmarkSearch(b *testing.B) {
	n := 100_000
	if s := os.Getenv("SAGESTORE_MESSAGES"); s != "" {
		n = must(strconv.Atoi(s))(b)
	}
	m := onDatabase(b, b.TempDir(), func(c *config.Config) { c.SQLite.Synchronous = "normal" })
	defer func() { ok(b, m.Close(b.Context())) }()
	s := agent.New(m)
	rng := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]string, 20_000)
	for i := range vocabulary {
		vocabulary[i] = strconv.FormatInt(int64(i*7919+100_000), 36)
	}
	for i := range 10 {
		ok(b, s.Save(b.Context(), agent.NewState(fmt.Sprint("agent-", i), "", "")))
	}
	written := 0
	for i := range 100 {
		c := agent.NewConversation(fmt.Sprint("agent-", i%10))
		for range n / 100 {
			var text strings.Builder
			text.WriteString("everywhere ")
			for text.Len() < 1000 {
				// Few words are frequent and most are rare, as in texts of people.
				text.WriteString(vocabulary[int(float64(len(vocabulary))*rng.Float64()*rng.Float64()*rng.Float64())])
				text.WriteByte(' ')
			}
			if written%100 == 50 {
				text.WriteString("hundredth")
			}
			if written%(n/10) == n/20 {
				text.WriteString("seldom-found")
			}
			written++
			c.Add(agent.NewMessage(agent.User, text.String()))
		}
		ok(b, s.SaveConversation(b.Context(), c))
	}
	for _, mode := range agent.Modes() {
		for _, text := range []string{"seldom-found", "hundredth", "everywhere"} {
			q := agent.Query{Text: text, Mode: mode}
			found(b, s, q)
			b.Run(fmt.Sprintf("%s/%s/index", mode, text), func(b *testing.B) {
				for b.Loop() {
					found(b, s, q)
				}
			})
			b.Run(fmt.Sprintf("%s/%s/scan", mode, text), func(b *testing.B) {
				for b.Loop() {
					ok(b, m.View(b.Context(), func(tx *manager.Tx) error {
						found(b, s.In(tx), q)
						return nil
					}))
				}
			})
		}
	}
}

// BenchmarkIndexedAppend appends messages of 1 KiB with and without an index.
func BenchmarkIndexedAppend(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		name := map[bool]string{false: "indexed", true: "encrypted, not indexed"}[encrypted]
		b.Run(name, func(b *testing.B) {
			m := onDatabase(b, b.TempDir(), func(c *config.Config) {
				c.Categories = map[string]config.Category{"agent.conversations": {Tier: "database", Encrypt: &encrypted}}
			})
			defer func() { ok(b, m.Close(b.Context())) }()
			s := agent.New(m)
			c := talk(b, s, "a")
			text := strings.Repeat("the quick brown fox jumps over the lazy dog ", 23)
			i := 0
			for b.Loop() {
				i++
				must(s.AppendMessage(b.Context(), c.ID, agent.NewMessage(agent.User, strconv.Itoa(i*7919)+text)))(b)
			}
		})
	}
}
