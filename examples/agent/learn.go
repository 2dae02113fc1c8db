package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/learning"
	"github.com/sagestore/sagestore/manager"
)

// learn stores what a step leaves beside its messages, in the transaction of the step.
func (a *app) learn(ctx context.Context, tx *manager.Tx, id, before string, i int, s step) error {
	if err := a.remember(ctx, tx, id, i, s); err != nil {
		return err
	}
	if s.Output != "" {
		content := a.content.In(tx)
		c, err := content.Put(ctx, id, s.Output, knowledge.Unknown)
		if err != nil {
			return err
		}
		if _, err := content.Get(ctx, c.ContentHash); err != nil { // which counts as an access
			return err
		}
	}
	if err := a.content.In(tx).AddUsage(ctx, usage(id, i, s)); err != nil {
		return err
	}
	if s.Tool == "" {
		return nil
	}
	learned := a.learned.In(tx)
	if before != "" && before != "<nil>" {
		err := learned.Patterns.Add(ctx, learning.Record{User: user, Kind: "after " + before, Text: "calls " + s.Tool})
		if err != nil {
			return err
		}
	}
	outcome := map[bool]string{false: "worked", true: "failed"}[s.Failed]
	if err := learned.Feedback.Add(ctx, learning.Record{User: user, Kind: outcome, Text: s.Tool}); err != nil {
		return err
	}
	return learned.Optimizations.Add(ctx, learning.Record{
		User: user, Kind: "answer may be kept", Text: s.Tool + " " + clip(s.Input, 60),
	})
}

// remember stores what a session has at hand, and what it says of its user.
func (a *app) remember(ctx context.Context, tx *manager.Tx, id string, i int, s step) error {
	sessions := a.sessions.In(tx)
	st, err := sessions.Load(ctx, id)
	if err != nil {
		return err
	}
	st.Context = map[string]any{"step": i + 1, "tool": s.Tool, "state": s.State}
	if st.Preferences == nil {
		st.Preferences = map[string]any{}
	}
	if s.Tool != "" {
		n, _ := st.Preferences["uses "+s.Tool].(int64)
		st.Preferences["uses "+s.Tool] = n + 1
	}
	if s.Query != "" {
		st.Preferences["asked last"] = clip(s.Query, 60)
	}
	if err := sessions.Save(ctx, &st); err != nil || s.Query == "" {
		return err
	}
	return sessions.AddQuery(ctx, id, s.Query)
}

// usage is what the model took for a step. Where the transcript does not say, four
// bytes are taken for a token.
func usage(id string, i int, s step) knowledge.Usage {
	u := knowledge.Usage{ID: fmt.Sprint("step ", i+1), Session: id, Model: s.Model, At: s.At, Input: s.In, Output: s.Out}
	if u.Model == "" {
		u.Model = "unknown"
	}
	if u.At.IsZero() {
		u.At = time.Unix(0, 0)
	}
	if s.In+s.Out == 0 {
		u.Input, u.Output = int64(len(s.Query)+len(s.Output))/4, int64(len(s.Text)+len(s.Input))/4
	}
	return u
}
