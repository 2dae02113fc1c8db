//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// agentsOf is how many agents a store has, besides forks of them.
const agentsOf = 20

// agentRoutes are where the categories of agents are: state, conversations,
// checkpoints and fields, and those of their sessions and the events of these. Memory is not among them: it dies with the process.
func agentRoutes() []string {
	return []string{
		"database database database database database database",
		"file file file file file file",
		"cache cache cache cache cache cache",
		"database cache file file database file",
		"file database cache database cache database",
	}
}

// workAgents is a process that works with agents until it is killed.
func workAgents(ctx context.Context, s spec) error {
	log, err := openJournal(s.Log)
	if err != nil {
		return err
	}
	m, err := s.Store.open(ctx, newPoints(s.Point, s.Nth, s.Lazy), nil)
	if err != nil {
		log.line(check.Line{Kind: "open", Text: err.Error()})
		return err
	}
	w := &worker{spec: s, m: m, log: log}
	agents, sessions := agent.New(m), session.New(m)
	log.line(check.Line{Kind: "ready", Op: strconv.Itoa(os.Getpid())})
	var wg sync.WaitGroup
	for g := range s.Callers {
		wg.Go(func() {
			k := &keeper{
				worker: w, agents: agents, sessions: sessions, rng: rand.New(rand.NewPCG(s.Seed, uint64(g))), //nolint:gosec // not a secret
				points: map[string]map[string]told{}, runs: map[string]*agent.Run{},
			}
			for i := s.Slot*s.Callers + g; i < agentsOf; i += workers * s.Callers {
				k.mine = append(k.mine, fmt.Sprintf("a%d", i), fmt.Sprintf("fork%d", i))
			}
			for ; s.Ops == 0 || k.n < s.Ops; k.n++ {
				k.step(ctx, fmt.Sprintf("%s-%d-%d", s.Name, g, k.n))
			}
		})
	}
	wg.Wait()
	return m.Close(ctx)
}

// told is what there is of an agent, as the log says it.
type told struct {
	steps int
	talks []talk
	log   []string // ids of the events of its session; nil: there is none
}

type talk struct {
	id string
	check.Talk
}

func (t *told) String() string {
	if t == nil {
		return check.Absent
	}
	talks := make([]string, len(t.talks))
	for i, one := range t.talks {
		talks[i] = one.String()
	}
	log := ""
	if t.log != nil {
		log = check.TellLog(t.log)
	}
	return check.Tell(t.steps, talks, log)
}

// keeper is a goroutine that has some agents to itself.
type keeper struct {
	*worker
	agents   *agent.Store
	sessions *session.Store
	rng      *rand.Rand
	mine     []string
	n        int
	points   map[string]map[string]told // what checkpoints show, by agent and id
	runs     map[string]*agent.Run
}

// read answers what there is of an agent, nil for nothing.
func (k *keeper) read(ctx context.Context, id string) (*told, error) {
	var t *told
	err := k.m.View(ctx, func(tx *manager.Tx) error {
		s := k.agents.In(tx)
		a, err := s.Load(ctx, id)
		if errors.Is(err, tiers.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		t = &told{}
		steps, _ := a.Get("steps")
		n, _ := steps.(int64)
		t.steps = int(n)
		for head, err := range s.Conversations(ctx, id, agent.After{}) {
			if err != nil {
				return err
			}
			c, err := s.LoadConversation(ctx, head.ID, agent.Page{})
			if err != nil {
				return err
			}
			one := talk{id: c.ID, Talk: check.Talk{Archived: c.Archived}}
			for _, m := range c.Messages {
				one.Messages = append(one.Messages, saidOf(&m))
			}
			t.talks = append(t.talks, one)
		}
		t.log, err = k.events(ctx, tx, id)
		return err
	})
	return t, err
}

func saidOf(m *agent.Message) check.Said {
	said := check.Said{ID: m.ID, Text: m.Content}
	for _, a := range m.Attachments {
		said.Sizes = append(said.Sizes, int64(len(a.Content)))
	}
	for _, c := range m.ToolCalls {
		said.Calls = append(said.Calls, string(c.Status))
	}
	return said
}

// change is something to be done to an agent, and what there is to be of it then.
type change struct {
	agent string
	want  *told
	do    func() error
	done  func() // once it was acknowledged
}

// step does one thing to one of the agents.
func (k *keeper) step(ctx context.Context, op string) {
	switch k.rng.IntN(8) {
	case 0:
		k.together(ctx, op)
		return
	case 1, 2:
		k.brawl(ctx, op)
		return
	}
	id := k.mine[k.rng.IntN(len(k.mine))]
	now, err := k.read(ctx, id)
	if err != nil {
		if !answer(err) {
			k.log.bad("%s: %s can't be read: %v", op, id, err)
		}
		return
	}
	c := k.choose(ctx, op, id, now)
	if c == nil {
		return
	}
	k.log.line(check.Line{Kind: check.Try, Op: op, By: id, Writes: []check.Cell{{At: c.agent, Op: c.want.String()}}})
	err = c.do()
	l := check.Line{Kind: check.Ack, Op: op}
	switch {
	case errors.Is(err, tiers.ErrCommitUnknown):
		l.Kind, l.Text = check.Unknown, err.Error()
	case err != nil:
		l.Kind, l.Text = check.Fail, err.Error()
		k.judge(op, c.agent, err)
	case c.done != nil:
		c.done()
	}
	k.log.line(l)
}

// choose answers what to do next, nil for nothing.
func (k *keeper) choose(ctx context.Context, op, id string, now *told) *change {
	if now == nil {
		delete(k.points, id)
		if strings.HasPrefix(id, "fork") {
			return nil // it is made of another
		}
		return k.create(ctx, op, id)
	}
	if k.rng.IntN(14) == 0 {
		return &change{agent: id, do: func() error { _, err := k.agents.Delete(ctx, id); return err }}
	}
	c := &change{agent: id, want: now.clone()}
	if len(now.talks) == 0 || len(now.talks) < 4 && k.rng.IntN(12) == 0 {
		return k.begin(ctx, op, c)
	}
	if k.rng.IntN(5) == 0 {
		return k.record(ctx, op, c)
	}
	if k.rng.IntN(2) == 0 {
		return k.talk(ctx, op, c, k.rng.IntN(len(now.talks)))
	}
	return k.keep(ctx, op, c)
}

func (t *told) clone() *told {
	out := &told{steps: t.steps, log: slices.Clone(t.log)}
	for _, one := range t.talks {
		one.Messages = append([]check.Said(nil), one.Messages...)
		out.talks = append(out.talks, one)
	}
	return out
}

// create makes an agent with a conversation and fields, all at once.
func (k *keeper) create(ctx context.Context, op, id string) *change {
	a := agent.NewState(id, op, "")
	a.Set("steps", 0)
	c := agent.NewConversation(id)
	c.Add(k.message(op, 0), k.message(op, 1))
	want := &told{talks: []talk{{id: c.ID}}}
	for _, m := range c.Messages {
		want.talks[0].Messages = append(want.talks[0].Messages, saidOf(&m))
	}
	return &change{agent: id, want: want, do: func() error {
		return k.m.Update(ctx, func(tx *manager.Tx) error {
			s := k.agents.In(tx)
			return errors.Join(s.Save(ctx, a), s.SaveConversation(ctx, c), s.Fields(id).SaveAll(ctx, map[string]any{"made": op, "n": 0}))
		}, manager.WithRetry(50))
	}}
}

// message makes a message, now and then with a content that others hold as well.
func (k *keeper) message(op string, i int) agent.Message {
	m := agent.NewMessage(agent.User, "says "+op)
	m.ID = fmt.Sprintf("%s.%d", op, i)
	if k.rng.IntN(5) == 0 {
		m.Attachments = []agent.Attachment{{ID: "x", Kind: agent.File, Content: strings.Repeat("abc"[k.rng.IntN(3):][:1], 5000)}}
	}
	return m
}

// begin begins another conversation.
func (k *keeper) begin(ctx context.Context, op string, c *change) *change {
	conv := agent.NewConversation(c.agent)
	conv.Add(k.message(op, 0))
	c.want.talks = append(c.want.talks, talk{id: conv.ID, Talk: check.Talk{Messages: []check.Said{saidOf(&conv.Messages[0])}}})
	c.do = func() error { return k.agents.SaveConversation(ctx, conv) }
	return c
}
