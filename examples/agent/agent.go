package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// The kinds of data of a SAGE-style app, one type each.
type (
	query struct {
		Text string    `json:"text"`
		At   time.Time `json:"at"`
	}
	preferences struct {
		Tools map[string]int `json:"tools"` // how often the user's agent called each
		Asked []string       `json:"asked,omitempty"`
	}
	content struct {
		Text string `json:"text"`
		From string `json:"from"`
	}
	tokens struct {
		In        int64 `json:"in"`
		Out       int64 `json:"out"`
		Estimated bool  `json:"estimated,omitempty"` // the transcript does not say, so four bytes were taken for one
	}
	access struct {
		Count int64     `json:"count"`
		Last  time.Time `json:"last"`
	}
	pattern struct {
		After string `json:"after"` // what tends to follow what
		Comes string `json:"comes"`
		Seen  int    `json:"seen"`
	}
	optimization struct {
		Advice string `json:"advice"`
		Seen   int    `json:"seen"`
	}
	feedback struct {
		Session string `json:"session"`
		Tool    string `json:"tool"`
		OK      int    `json:"ok"`
		Failed  int    `json:"failed"`
	}
	settings struct {
		Model       string `json:"model"`
		HistoryDays int    `json:"history_days"`
		Verbose     bool   `json:"verbose"`
	}
)

// agent stores what an app learns while it works. Every field is a category;
// which tier it lives in is not the agent's business.
type agent struct {
	user  string
	watch *stopwatch

	context       *manager.Collection[map[string]any]
	history       *manager.Collection[query]
	preferences   *manager.Collection[preferences]
	content       *manager.Collection[content]
	tokens        *manager.Collection[tokens]
	usage         *manager.Collection[tokens]
	access        *manager.Collection[access]
	patterns      *manager.Collection[pattern]
	optimizations *manager.Collection[optimization]
	feedback      *manager.Collection[feedback]
	settings      *manager.Collection[settings]
}

func newAgent(m *manager.Manager, user string, watch *stopwatch) (*agent, error) {
	a := &agent{
		user: user, watch: watch,
		context:       manager.For[map[string]any](m, "session.context"),
		history:       manager.For[query](m, "session.history"),
		preferences:   manager.For[preferences](m, "session.preferences"),
		content:       manager.For[content](m, "knowledge.content"),
		tokens:        manager.For[tokens](m, "knowledge.tokens"),
		usage:         manager.For[tokens](m, "knowledge.usage"),
		access:        manager.For[access](m, "knowledge.access"),
		patterns:      manager.For[pattern](m, "learning.patterns"),
		optimizations: manager.For[optimization](m, "learning.optimizations"),
		feedback:      manager.For[feedback](m, "learning.feedback"),
		settings:      manager.For[settings](m, "config"),
	}
	return a, manager.Check(a.context, a.history, a.preferences, a.content, a.tokens, a.usage, a.access,
		a.patterns, a.optimizations, a.feedback, a.settings)
}

// play stores a whole transcript, step by step.
func (a *agent) play(ctx context.Context, t transcript) error {
	_, err := a.settings.Load(ctx, "settings")
	if errors.Is(err, tiers.ErrNotFound) {
		err = save(ctx, a, a.settings, "config", "settings", settings{Model: "sample-large", HistoryDays: 1})
	}
	if err != nil {
		return err
	}
	before := ""
	for i, s := range t.Steps {
		if err := a.step(ctx, t.Session, i, before, s); err != nil {
			return fmt.Errorf("session %s, step %d: %w", t.Session, i+1, err)
		}
		if s.Tool != "" {
			before = s.Tool
		}
	}
	return nil
}

func (a *agent) step(ctx context.Context, session string, i int, before string, s step) error {
	now := map[string]any{"step": i + 1, "tool": s.Tool, "state": s.State}
	if err := save(ctx, a, a.context, "session.context", manager.Key(session, "now"), now); err != nil {
		return err
	}
	if s.Query != "" {
		if err := a.learnQuery(ctx, session, i, s); err != nil {
			return err
		}
	}
	if s.Output != "" {
		if err := a.learnContent(ctx, session, s); err != nil {
			return err
		}
	}
	if err := a.countTokens(ctx, session, s); err != nil {
		return err
	}
	if s.Tool != "" {
		return a.learnTool(ctx, session, before, s)
	}
	return nil
}

func (a *agent) learnQuery(ctx context.Context, session string, i int, s step) error {
	key := manager.Key(session, fmt.Sprintf("%06d", i))
	if err := save(ctx, a, a.history, "session.history", key, query{Text: s.Query, At: s.At}); err != nil {
		return err
	}
	return change(ctx, a, a.preferences, "session.preferences", a.user, func(p *preferences) {
		p.Asked = append(p.Asked, clip(s.Query, 60))
		p.Asked = p.Asked[max(0, len(p.Asked)-20):]
	})
}

// learnContent keeps what a tool answered, under the hash of it, and counts how
// often it came up.
func (a *agent) learnContent(ctx context.Context, session string, s step) error {
	sum := sha256.Sum256([]byte(s.Output))
	hash := hex.EncodeToString(sum[:])
	c := content{Text: s.Output, From: s.Tool}
	if err := save(ctx, a, a.content, "knowledge.content", manager.Key(session, hash), c); err != nil {
		return err
	}
	return change(ctx, a, a.access, "knowledge.access", hash, func(v *access) {
		v.Count++
		v.Last = s.At
	})
}

func (a *agent) countTokens(ctx context.Context, session string, s step) error {
	in, out, estimated := s.In, s.Out, false
	if in+out == 0 {
		in, out, estimated = int64(len(s.Query)+len(s.Output))/4, int64(len(s.Text)+len(s.Input))/4, true
	}
	add := func(v *tokens) {
		v.In, v.Out, v.Estimated = v.In+in, v.Out+out, v.Estimated || estimated
	}
	if err := change(ctx, a, a.tokens, "knowledge.tokens", session, add); err != nil {
		return err
	}
	model, day := s.Model, "undated"
	if model == "" {
		model = "unknown"
	}
	if !s.At.IsZero() {
		day = s.At.UTC().Format(time.DateOnly)
	}
	return change(ctx, a, a.usage, "knowledge.usage", manager.Key(session, model, day), add)
}

// learnTool keeps what the call of a tool teaches: habits, what follows what,
// what fails, and what was done twice.
func (a *agent) learnTool(ctx context.Context, session, before string, s step) error {
	err := change(ctx, a, a.preferences, "session.preferences", a.user, func(p *preferences) {
		if p.Tools == nil {
			p.Tools = map[string]int{}
		}
		p.Tools[s.Tool]++
	})
	if err != nil {
		return err
	}
	if before != "" {
		key := manager.Key(a.user, before, s.Tool)
		err := change(ctx, a, a.patterns, "learning.patterns", key, func(p *pattern) {
			p.After, p.Comes, p.Seen = before, s.Tool, p.Seen+1
		})
		if err != nil {
			return err
		}
	}
	err = change(ctx, a, a.feedback, "learning.feedback", manager.Key(session, s.Tool), func(f *feedback) {
		f.Session, f.Tool = session, s.Tool
		if s.Failed {
			f.Failed++
		} else {
			f.OK++
		}
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(s.Tool + "\x00" + s.Input))
	key := manager.Key(a.user, hex.EncodeToString(sum[:8]))
	return change(ctx, a, a.optimizations, "learning.optimizations", key, func(o *optimization) {
		o.Seen++
		o.Advice = "a call of " + s.Tool + " whose answer may be kept"
	})
}

// save stores a value and loads it again, and notes how long each took.
func save[T any](ctx context.Context, a *agent, c *manager.Collection[T], category, key string, v T) error {
	start := time.Now()
	if err := c.Save(ctx, key, v); err != nil {
		return err
	}
	saved := time.Now()
	if _, err := c.Load(ctx, key); err != nil {
		return err
	}
	a.watch.saved(category, saved.Sub(start))
	a.watch.loaded(category, time.Since(saved))
	return nil
}

// change modifies a value, or makes it, and loads it again. Its save reads what
// is there first.
func change[T any](ctx context.Context, a *agent, c *manager.Collection[T], category, key string, fn func(*T)) error {
	start := time.Now()
	if _, err := c.Modify(ctx, key, func(v *T, _ bool) error {
		fn(v)
		return nil
	}); err != nil {
		return err
	}
	saved := time.Now()
	if _, err := c.Load(ctx, key); err != nil {
		return err
	}
	a.watch.saved(category, saved.Sub(start))
	a.watch.loaded(category, time.Since(saved))
	return nil
}

func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}
