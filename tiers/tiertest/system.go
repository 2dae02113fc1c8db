package tiertest

import (
	"context"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// RunSystem checks every promise of [tiers.System] on the capability of the
// tier that open answers. What it says of itself in Describe decides whether
// its store must survive Close, and be seen by other handles.
func RunSystem(t *testing.T, open func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error)) {
	t.Helper()
	runGroups(t, Config{Open: open}, systemGroups())
}

func systemGroups() []group {
	return []group{
		{"facts", factRules()},
		{"journal", journalRules()},
		{"pending", pendingRules()},
		{"waiting", waitingRules()},
		{"sessions", sessionRules()},
		{"system", systemRules()},
	}
}

// systemOf answers the system store of a handle.
func (t *T) systemOf(h tiers.Tier) tiers.System {
	s, ok := tiers.As[tiers.System](h)
	if !ok {
		t.Fatalf("the tier has no system store")
	}
	return s
}

func (t *T) system() tiers.System { return t.systemOf(t.Tier) }

// reopened opens the store again if it is durable, and tells whether it did.
func (t *T) reopened() bool {
	if !tiers.Describe(t.Tier).Durable {
		return false
	}
	t.Reopen()
	return true
}

// second answers another handle of the same store, if others see it.
func (t *T) second() (tiers.System, bool) {
	if tiers.Describe(t.Tier).Scope == tiers.ScopeProcess {
		return nil, false
	}
	return t.systemOf(t.Open()), true
}

// collect answers what a listing yields and ends the rule on an error.
func collect[V any](t *T, what string, seq func(func(V, error) bool)) []V {
	var out []V
	for v, err := range seq {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		out = append(out, v)
	}
	return out
}

func systemRules() []rule {
	return []rule{
		{
			name: "a lock has one holder",
			why:  "who applies rows must not be followed by another one who does",
			run:  lockHasOneHolder,
		},
		{
			name: "changes grow with every change",
			why:  "other processes look at nothing else to learn that there is something new",
			run:  changesGrow,
		},
		{
			name: "changes stand still when nothing is written",
			why:  "a counter that always grows makes everybody look all the time",
			run: func(t *T) {
				s := t.system()
				t.appendRows(s, pendingRow("cache", "k", "v"))
				t.start(s, "", "s-1")
				before := t.changes(s)
				_, _ = s.Pending(t.ctx, "cache", named("k"))
				_, _ = s.Due(t.ctx, "cache", 0, 10)
				_, _ = s.Backlog(t.ctx, "cache")
				_, _ = s.Fact(t.ctx, "nothing")
				collect(t, "sessions", s.ListSessions(t.ctx))
				if after := t.changes(s); after != before {
					t.Errorf("reading took the counters from %+v to %+v", before, after)
				}
			},
		},
		{
			name: "a context that is over changes nothing in the system store",
			why:  "the caller has left and takes it as not done",
			run: func(t *T) {
				ctx, cancel := context.WithCancel(t.ctx)
				cancel()
				for name, op := range systemOperations(t.system()) {
					t.wantError(name, op(ctx), context.Canceled)
				}
				s := t.system()
				_, err := s.Fact(t.ctx, "fact")
				t.wantError("the fact afterwards", err, tiers.ErrNotFound)
				_, err = s.Pending(t.ctx, "cache", named("k"))
				t.wantError("the row afterwards", err, tiers.ErrNotFound)
				if got := collect(t, "sessions", s.ListSessions(t.ctx)); len(got) != 0 {
					t.Errorf("there are sessions afterwards: %+v", got)
				}
			},
		},
		{
			name: "after Close the system store answers ErrClosed",
			why:  "a late caller gets an error that it can tell, not a panic",
			run: func(t *T) {
				ops := systemOperations(t.system())
				if err := t.Tier.Close(t.ctx); err != nil {
					t.Fatalf("close: %v", err)
				}
				for name, op := range ops {
					t.guard(func() { t.wantError(name, op(t.ctx), tiers.ErrClosed) })
				}
			},
		},
		{
			name: "the system store is not among the records",
			why:  "lists, backups of categories and sweeps would take it for the app's",
			run: func(t *T) {
				s := t.system()
				t.setFact(s, "fact", "v", false)
				t.appendRows(s, pendingRow("cache", "k", "v"))
				t.start(s, "", "s-1")
				if got := t.spaces(); len(got) != 0 {
					t.Errorf("spaces yields %v", got)
				}
				t.wantAbsent("pending for another tier", named("k"))
			},
		},
	}
}

func lockHasOneHolder(t *T) {
	handles := []tiers.System{t.system(), t.system()}
	if other, ok := t.second(); ok {
		handles = append(handles, other)
	}
	lock := func(s tiers.System, name string, want bool) (unlock func()) {
		unlock, ok, err := s.Lock(t.ctx, name)
		if err != nil || ok != want {
			t.Fatalf("the lock %s: %v, %s, want %v", name, ok, said(err), want)
		}
		return unlock
	}
	for i, holder := range handles {
		unlock := lock(holder, "a", true)
		for _, s := range handles {
			lock(s, "a", false)
		}
		lock(handles[(i+1)%len(handles)], "b", true)()
		unlock()
	}
	lock(handles[0], "a", true)()
}

func (t *T) changes(s tiers.System) tiers.Changes {
	c, err := s.Changes(t.ctx)
	if err != nil {
		t.Fatalf("changes: %v", err)
	}
	return c
}

func changesGrow(t *T) {
	s := t.system()
	watchers := []tiers.System{s}
	if other, ok := t.second(); ok {
		watchers = append(watchers, other)
	}
	var rows []tiers.Row
	steps := []struct {
		what     string
		journal  bool
		sessions bool
		do       func()
	}{
		{"append", true, false, func() { rows = t.appendRows(s, pendingRow("cache", "k", "v")) }},
		{"append again", true, false, func() { rows = t.appendRows(s, pendingRow("cache", "k", "w")) }},
		{"done", true, false, func() { t.done(s, rows...) }},
		{"start", false, true, func() { t.start(s, "", "s-1") }},
		{"end", false, true, func() { t.endSession(s, "", "s-1") }},
		{"reopen", false, true, func() { t.reopenSession(s, "s-1") }},
	}
	for _, step := range steps {
		before := make([]tiers.Changes, len(watchers))
		for i, w := range watchers {
			before[i] = t.changes(w)
		}
		t.Clock.Advance(time.Millisecond)
		step.do()
		for i, w := range watchers {
			after := t.changes(w)
			if step.journal && after.Journal <= before[i].Journal || step.sessions && after.Sessions <= before[i].Sessions {
				t.Errorf("%s: handle %d sees the counters go from %+v to %+v", step.what, i+1, before[i], after)
			}
			if after.Journal < before[i].Journal || after.Sessions < before[i].Sessions {
				t.Errorf("%s: handle %d sees a counter fall from %+v to %+v", step.what, i+1, before[i], after)
			}
		}
	}
}

// systemOperations are every method of a system store.
func systemOperations(s tiers.System) map[string]func(ctx context.Context) error {
	k := named("k")
	return map[string]func(ctx context.Context) error{
		"lock":     func(ctx context.Context) error { _, _, err := s.Lock(ctx, "lock"); return err },
		"fact":     func(ctx context.Context) error { _, err := s.Fact(ctx, "fact"); return err },
		"set fact": func(ctx context.Context) error { _, err := s.SetFact(ctx, "fact", []byte("v"), false); return err },
		"facts":    func(ctx context.Context) error { return lastError(s.Facts(ctx, "")) },
		"append": func(ctx context.Context) error {
			_, err := s.Append(ctx, []tiers.Row{pendingRow("cache", "k", "v")}, nil, 0)
			return err
		},
		"pending": func(ctx context.Context) error { _, err := s.Pending(ctx, "cache", k); return err },
		"list pending": func(ctx context.Context) error {
			return lastError(s.ListPending(ctx, "cache", tiers.Query{Category: category}))
		},
		"due":           func(ctx context.Context) error { _, err := s.Due(ctx, "cache", 0, 1); return err },
		"done":          func(ctx context.Context) error { return s.Done(ctx, []tiers.Row{pendingRow("cache", "k", "v")}) },
		"backlog":       func(ctx context.Context) error { _, err := s.Backlog(ctx, "cache"); return err },
		"start session": func(ctx context.Context) error { _, err := s.StartSession(ctx, "", "s-1"); return err },
		"seen sessions": func(ctx context.Context) error {
			return s.SeenSessions(ctx, []tiers.Session{{ID: "s-1", Seen: time.Unix(1, 0)}})
		},
		"end session":    func(ctx context.Context) error { _, _, err := s.EndSession(ctx, "", "s-1", time.Time{}); return err },
		"reopen session": func(ctx context.Context) error { _, err := s.ReopenSession(ctx, "", "s-1"); return err },
		"list sessions":  func(ctx context.Context) error { return lastError(s.ListSessions(ctx)) },
		"sessions since": func(ctx context.Context) error { return lastError(s.SessionsSince(ctx, 0)) },
		"changes":        func(ctx context.Context) error { _, err := s.Changes(ctx); return err },
	}
}
