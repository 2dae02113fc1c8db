package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
)

// sessionThere is a session as session list shows it.
type sessionThere struct {
	manager.SessionInfo
	Agent  string     `json:"agent_id,omitempty"`
	Events uint64     `json:"events,omitempty"` // sequence number of the last one of its log
	Ended  *time.Time `json:"ended,omitempty"`  // as its log says
}

// sessionsThere answers the sessions that go on and those that have a log, in the order
// of their ids. Logs that can't be read are reported, and damaged tells of them.
func (a *app) sessionsThere(ctx context.Context, m *manager.Manager) (all []sessionThere, damaged bool, err error) {
	all = []sessionThere{}
	at := map[string]int{}
	for s, err := range m.Sessions(ctx) {
		if err != nil {
			return nil, false, err
		}
		at[s.ID] = len(all)
		all = append(all, sessionThere{SessionInfo: s})
	}
	if refuseCategory(m, "session.events") != nil || refuseCategory(m, "session.state") != nil {
		return all, false, nil // nobody can share its logs
	}
	for info, err := range session.New(m).All(ctx) {
		if err != nil {
			a.report(err)
			damaged = true
			continue
		}
		i, goesOn := at[info.ID]
		if !goesOn {
			i = len(all)
			all = append(all, sessionThere{SessionInfo: manager.SessionInfo{ID: info.ID, Started: info.StartedAt}})
		}
		all[i].Events, all[i].Agent = info.Events, info.AgentID
		if !info.EndedAt.IsZero() {
			all[i].Ended = &info.EndedAt
		}
	}
	slices.SortStableFunc(all, func(a, b sessionThere) int { return cmp.Compare(a.ID, b.ID) })
	return all, damaged, ctx.Err()
}

func (a *app) printSessions(all []sessionThere) error {
	t := table{columns: []column{
		{title: "SESSION"},
		{title: "STARTED (UTC)", spare: 3},
		{title: "LAST USED (UTC)", spare: 2},
		{title: "ENTRIES", right: true},
		{title: "EVENTS", right: true},
		{title: "ENDED (UTC)", spare: 1},
	}}
	owned := slices.ContainsFunc(all, func(s sessionThere) bool { return s.Agent != "" })
	if owned {
		t.columns = slices.Insert(t.columns, 1, column{title: "AGENT", shrink: true})
	}
	moment := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format(time.DateTime)
	}
	for _, s := range all {
		ended := ""
		if s.Ended != nil {
			ended = moment(*s.Ended)
		}
		row := []string{shown(s.ID), moment(s.Started), moment(s.Seen), fmt.Sprint(s.Entries), fmt.Sprint(s.Events), ended}
		if owned {
			row = slices.Insert(row, 1, shown(s.Agent))
		}
		t.add(row...)
	}
	return a.printTable(t)
}
