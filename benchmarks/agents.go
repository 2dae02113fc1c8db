package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// openAgents opens a store of agents on the database, with an agent "a".
func openAgents(ctx context.Context, dir string) (*manager.Manager, *agent.Store, error) {
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.Categories = map[string]config.Category{"bench.whole": {Tier: "database"}}
	m, err := manager.Open(ctx, cfg, embedded.Tiers())
	if err != nil {
		return nil, nil, err
	}
	s := agent.New(m)
	return m, s, s.Save(ctx, agent.NewState("a", "A", ""))
}

// words is a text of 1 KiB that differs from call to call, and mostly of words that
// are in many others.
func words(i int) string {
	b := make([]byte, 0, valueSize)
	for n := uint64(i)*2654435761 + 1; len(b) < valueSize-8; {
		n = n*6364136223846793005 + 1442695040888963407
		r := n >> 33 % 20_000
		// Few words are frequent and most are rare, as in texts of people.
		b = strconv.AppendUint(append(b, "word"...), r*(n>>50%20_000)/20_000, 36)
		b = append(b, ' ')
	}
	return string(b)
}

// talk makes a conversation of n messages of 1 KiB.
func talk(ctx context.Context, s *agent.Store, id string, n, from int) error {
	c := agent.NewConversation("a")
	c.ID = id
	if err := s.SaveConversation(ctx, c); err != nil {
		return err
	}
	for at := 0; at < n; {
		var some []agent.Message
		for ; at < n && len(some) < 500; at++ {
			some = append(some, agent.NewMessage(agent.User, words(from+at)))
		}
		if _, err := s.AppendMessage(ctx, id, some...); err != nil {
			return err
		}
	}
	return nil
}

func appends(s *agent.Store, id string) op {
	return func(ctx context.Context, _, i int) error {
		_, err := s.AppendMessage(ctx, id, agent.NewMessage(agent.User, words(i)))
		return err
	}
}

func agentComparisons() []comparison {
	const short, long = 100, 10_000
	open := func(ctx context.Context, dir string) (*manager.Manager, *agent.Store, error) {
		m, s, err := openAgents(ctx, dir)
		if err == nil {
			err = talk(ctx, s, "long", long, 0)
		}
		return m, s, err
	}
	return []comparison{
		{
			work: "append to a conversation of 10,000 messages", against: "to one of 100", callers: 1, must: 1.2, aim: 1.05,
			setup: func(ctx context.Context, dir string) (op, op, func(), error) {
				m, s, err := open(ctx, dir)
				if err != nil {
					return nil, nil, nil, err
				}
				// The short one is left behind for another when it has grown.
				var n atomic.Int64
				var id atomic.Value
				var mu sync.Mutex
				begin := func(ctx context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					name := fmt.Sprint("short-", n.Add(1))
					id.Store(name)
					return talk(ctx, s, name, short, int(n.Load()))
				}
				if err := begin(ctx); err != nil {
					return nil, nil, nil, err
				}
				made := 0
				raw := func(ctx context.Context, caller, i int) error {
					if made++; made%short == 0 {
						if err := begin(ctx); err != nil {
							return err
						}
					}
					return appends(s, id.Load().(string))(ctx, caller, i)
				}
				return appends(s, "long"), raw, func() { _ = m.Close(ctx) }, nil
			},
		},
		{
			work: "append to a conversation of 10,000 messages", against: "writing it again", callers: 1, kind: faster, must: 100, aim: 1000,
			setup: func(ctx context.Context, dir string) (op, op, func(), error) {
				m, s, err := open(ctx, dir)
				if err != nil {
					return nil, nil, nil, err
				}
				whole, err := s.LoadConversation(ctx, "long", agent.Page{})
				if err != nil {
					return nil, nil, nil, err
				}
				docs := manager.For[agent.Conversation](m, "bench.whole")
				raw := func(ctx context.Context, _, i int) error {
					whole.Messages[i%long].Content = words(i)
					return docs.Save(ctx, "long", *whole)
				}
				return appends(s, "long"), raw, func() { _ = m.Close(ctx) }, nil
			},
		},
		{
			work: "append an event to one session, 64 callers", against: "1 caller", callers: 64, rawCallers: 1, kind: faster, must: 4, aim: 8,
			setup: func(ctx context.Context, dir string) (op, op, func(), error) {
				m, _, err := openAgents(ctx, dir)
				if err != nil {
					return nil, nil, nil, err
				}
				s := session.New(m)
				adds := func(id string) op {
					return func(ctx context.Context, _, i int) error {
						e, err := session.NewEvent(id, "t", session.UserPrompt{Prompt: words(i)})
						if err == nil {
							_, err = s.Append(ctx, id, e)
						}
						return err
					}
				}
				for _, id := range []string{"many", "one"} {
					if err := s.Start(ctx, session.State{SessionID: id}); err != nil {
						return nil, nil, nil, err
					}
				}
				return adds("many"), adds("one"), func() { _ = m.Close(ctx) }, nil
			},
		},
	}
}
