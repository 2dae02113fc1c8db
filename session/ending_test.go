package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// A process that dies between the commit of an end and what follows leaves word,
// and another one does the rest.
func TestEndThatWasCutShortIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), routeTo("database")
	cfg := r.Config(t, t.TempDir())
	m := open(t, cfg)
	s := session.New(m)
	must(t, s.Start(ctx, session.State{SessionID: "s", Context: map[string]any{"goal": "x"}}))
	must(t, s.Start(ctx, session.State{SessionID: "r"}))
	must(t, m.EndSession(ctx, "r"))
	// What the commits of an end and of a resumption leave until they are known to
	// the manager.
	must(t, m.Save(ctx, "session.state", "%ending/s", map[string]any{"session": "s", "ended": true}))
	must(t, m.Save(ctx, "session.state", "%ending/r", map[string]any{"session": "r"}))
	must(t, m.Close(ctx)) // the last run of the background work finds them

	m = open(t, cfg)
	for item, err := range m.List(ctx, "session.context") {
		t.Errorf("%q is left, %v", item.Key, err)
	}
	err := m.Save(ctx, "session.context", "s/late", 1)
	wantIs(t, err, tiers.ErrSessionEnded, "a save into the session that ended")
	must(t, m.Save(ctx, "session.context", "r/again", 1))
	for item, err := range m.List(ctx, "session.state") {
		must(t, err)
		if strings.HasPrefix(item.Key, "%") {
			t.Errorf("%q is left", item.Key)
		}
	}
	must(t, m.Close(ctx))
}

// Removing what ended with a session may fail; the end stands, and is finished
// later.
func TestEndStandsWhenWhatFollowsFails(t *testing.T) {
	t.Parallel()
	ctx, broken := t.Context(), false
	cfg := routeTo("memory").Config(t, "")
	m := open(t, cfg)
	must(t, m.Close(ctx))
	m, err := manager.Open(ctx, cfg, sagetest.Failing(drivers(), func(op string, k tiers.Key) error {
		if broken && op == "delete" && k.Category == "session.context" {
			return errors.New("the disk is gone")
		}
		return nil
	}))
	must(t, err)
	s := session.New(m)
	must(t, s.Start(ctx, session.State{SessionID: "s", Context: map[string]any{"goal": "x"}}))
	broken = true
	must(t, s.End(ctx, "s"))
	if st := value[session.State](t)(s.Load(ctx, "s")); st.EndedAt.IsZero() || st.Context != nil {
		t.Errorf("after the end it is %+v", st)
	}
	broken = false
	must(t, m.Close(ctx))
}

func TestStopThatIsAppendedEndsTheSession(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			must(t, s.Start(ctx, session.State{SessionID: "s", Context: map[string]any{"goal": "x"}}))
			_, err := s.Append(ctx, "s", event(t, "s", "", session.Stop{}), event(t, "s", "", session.UserPrompt{}))
			wantIs(t, err, tiers.ErrSessionEnded, "append a stop that is not the last")
			value[uint64](t)(s.Append(ctx, "s", event(t, "s", "", session.Stop{Error: "no", Success: false})))
			if st := value[session.State](t)(s.Load(ctx, "s")); st.EndedAt.IsZero() || st.Context != nil {
				t.Errorf("it is %+v", st)
			}
			wantIs(t, m.Save(ctx, "session.context", "s/late", 1), tiers.ErrSessionEnded, "save into it")
		})
	}
}

func TestUsageOfEventsIsInTheLedgerOnce(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, k := t.Context(), knowledge.New(m)
			s := session.New(m, session.WithKnowledge(k))
			must(t, s.Start(ctx, session.State{SessionID: "s"}, event(t, "s", "", session.Init{Model: "m-1"})))
			response := event(t, "s", "t", session.AssistantResponse{FullText: "a", Usage: &session.Usage{InputTokens: 10, OutputTokens: 5}})
			value[uint64](t)(s.Append(ctx, "s", response, response))
			value[uint64](t)(s.Append(ctx, "s", response))
			other := event(t, "s", "t", session.AssistantResponse{Model: "m-2", Usage: &session.Usage{InputTokens: 1}})
			value[uint64](t)(s.Append(ctx, "s", other))
			c := value[knowledge.Cache](t)(k.Put(ctx, "s", "some text", 2))
			must(t, s.End(ctx, "s", session.Stop{Success: true, Usage: session.Usage{InputTokens: 12, OutputTokens: 5, CacheReadTokens: 3}}))
			sums := value[map[string]knowledge.Usage](t)(k.Usage(ctx, knowledge.ByModel, start, start.AddDate(0, 0, 1)))
			if a, b := sums["m-1"], sums["m-2"]; a.Input != 11 || a.Output != 5 || a.CacheRead != 3 || b.Input != 1 || len(sums) != 2 {
				t.Errorf("the sums are %+v", sums)
			}
			if _, err := k.Get(ctx, c.ContentHash); !errors.Is(err, tiers.ErrNotFound) {
				t.Errorf("content that only the session held: %v", err)
			}
			if n := value[int](t)(k.Collect(ctx)); n != 0 {
				t.Errorf("%d bodies were left to collect", n)
			}
		})
	}
}
