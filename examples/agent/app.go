package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/learning"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// The agent of this app, and whom it works for.
const (
	agentID = "sample-agent"
	user    = "sample-user"
)

// settings are what people edit by hand, in a file.
type settings struct {
	Model       string `json:"model"`
	HistoryDays int    `json:"history_days"`
	Verbose     bool   `json:"verbose"`
}

// app stores what an agent works with. Which tier each kind of data lives in is not
// its business.
type app struct {
	m        *manager.Manager
	agents   *agent.Store
	sessions *session.Store
	content  *knowledge.Store
	learned  *learning.Store
	settings *manager.Collection[settings]

	run   *agent.Run
	state *agent.State // as of the last step
}

func newApp(m *manager.Manager) (*app, error) {
	content := knowledge.New(m)
	a := &app{
		m: m, agents: agent.New(m), content: content, learned: learning.New(m),
		sessions: session.New(m, session.WithKnowledge(content)),
		settings: manager.For[settings](m, "config"),
	}
	return a, errors.Join(a.agents.Check(), a.sessions.Check(), content.Check(), a.learned.Check(), manager.Check(a.settings))
}

// begin makes the agent at the first run, and goes on with it at every other.
func (a *app) begin(ctx context.Context, say func(string, ...any)) error {
	fields := a.agents.Fields(agentID)
	before, err := fields.Exists(ctx)
	if err != nil {
		return err
	}
	runs, err := agent.Persist(ctx, fields, "runs", 0)
	if err != nil {
		return err
	}
	if err := runs.Update(ctx, func(n *int) error { *n++; return nil }); err != nil {
		return err
	}
	_, err = a.settings.Load(ctx, "settings")
	if errors.Is(err, tiers.ErrNotFound) {
		err = a.settings.Save(ctx, "settings", settings{Model: "sample-large", HistoryDays: 1})
	}
	if err != nil {
		return err
	}
	a.state, err = a.agents.Load(ctx, agentID)
	if errors.Is(err, tiers.ErrNotFound) {
		a.state = agent.NewState(agentID, "Sample", "sample-large")
		a.state.SystemPrompt = "You fix what is broken in a shop."
		err = a.agents.Save(ctx, a.state)
	}
	if err != nil {
		return err
	}
	// The process of a run that was killed is gone, so nobody has to be waited for.
	a.run, err = a.agents.Run(ctx, agentID, agent.RunOptions{
		Strategy: agent.AnyOf(agent.AfterToolCall(), agent.AfterModelResponse()), TakeOver: true,
	})
	if err != nil {
		return err
	}
	switch done := a.run.Iteration(); {
	case !before:
		say("This is the first run: nothing was stored.")
	case done == 0:
		say("This is run %d, and no step was committed before.", runs.Get())
	default:
		newest := "there is no checkpoint yet"
		if point, there := a.run.Resumed(); there {
			newest = fmt.Sprintf("the newest checkpoint is of step %d", point.Iteration)
		}
		say("This is run %d. It goes on behind step %d, and %s: nothing is lost, and nothing is to be done again.", runs.Get(), done, newest)
	}
	return nil
}

// session plays those steps of a session that were not committed, and answers how many.
// crash is called amid the crashAt-th step, counted from 1.
func (a *app) session(ctx context.Context, t transcript, crashAt int, crash func()) (played int, err error) {
	for i, s := range t.Steps {
		if a.done(t.Session, i) {
			continue
		}
		if played == 0 {
			if err := a.openSession(ctx, t); err != nil {
				return 0, err
			}
		}
		amid := func() {}
		if i+1 == crashAt {
			amid = crash
		}
		if err := a.step(ctx, t.Session, i, s, amid); err != nil {
			return played, fmt.Errorf("session %s, step %d: %w", t.Session, i+1, err)
		}
		played++
	}
	return played, nil
}

// openSession begins a session with its conversation, or goes on with them.
func (a *app) openSession(ctx context.Context, t transcript) error {
	_, err := a.sessions.Resume(ctx, t.Session)
	if errors.Is(err, tiers.ErrNotFound) {
		err = a.sessions.Start(ctx, session.State{SessionID: t.Session, UserID: user})
	}
	if err != nil {
		return err
	}
	_, err = a.agents.LoadConversation(ctx, t.Session, agent.Page{Limit: 1})
	if errors.Is(err, tiers.ErrNotFound) {
		c := agent.NewConversation(agentID)
		c.ID = t.Session
		err = a.agents.SaveConversation(ctx, c)
	}
	return err
}

// done tells whether a step of a session was committed, in this run or an earlier one.
func (a *app) done(session string, i int) bool {
	n, _ := a.state.Get("steps of " + session)
	steps, _ := n.(int64)
	return int64(i) < steps
}

// step does the i-th step of a session: all of it, or nothing. It calls amid amid it.
func (a *app) step(ctx context.Context, session string, i int, s step, amid func()) error {
	event := agent.ModelDone
	switch {
	case s.Tool != "":
		event = agent.ToolDone
	case s.Text == "":
		event = agent.Iteration // it was the user's turn
	}
	var state *agent.State
	_, err := a.run.Step(ctx, event, func(tx *manager.Tx) (err error) {
		agents := a.agents.In(tx)
		if _, err = agents.AppendMessage(ctx, session, messages(i, s)...); err != nil {
			return err
		}
		amid()
		if state, err = agents.Load(ctx, agentID); err != nil {
			return err
		}
		before, _ := state.Get("last tool")
		state.Set("steps of "+session, int64(i+1))
		if s.Tool != "" {
			state.Set("last tool", s.Tool)
		}
		if err = agents.Save(ctx, state); err != nil {
			return err
		}
		return a.learn(ctx, tx, session, fmt.Sprint(before), i, s)
	})
	if err == nil {
		a.state = state
	}
	return err
}

// messages are what was said and done in a step.
func messages(i int, s step) (ms []agent.Message) {
	add := func(m agent.Message) {
		if !s.At.IsZero() {
			m.At = s.At
		}
		ms = append(ms, m)
	}
	if s.Query != "" {
		add(agent.NewMessage(agent.User, s.Query))
	}
	if s.Text == "" && s.Tool == "" {
		return ms
	}
	m := agent.NewMessage(agent.Assistant, s.Text)
	if s.In+s.Out > 0 {
		out := int(s.Out)
		m.Tokens = &out
	}
	if s.Tool == "" {
		add(m)
		return ms
	}
	call := fmt.Sprintf("call-%d", i+1)
	m.ToolCalls = []agent.ToolCall{{ID: call, Name: s.Tool, Arguments: arguments(s.Input)}}
	add(m)
	if s.Failed {
		add(agent.ToolFailure(call, s.Output))
	} else {
		add(agent.ToolResult(call, s.Output))
	}
	return ms
}

// arguments are those of a tool call: an object, made of what is none.
func arguments(input string) json.RawMessage {
	if input = strings.TrimSpace(input); strings.HasPrefix(input, "{") && json.Valid([]byte(input)) {
		return json.RawMessage(input)
	}
	object, err := json.Marshal(map[string]string{"input": input})
	if err != nil {
		return nil // a text is always valid
	}
	return object
}
