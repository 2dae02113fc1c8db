package check

import (
	"encoding/json"
	"fmt"
	"strings"
)

// LogOf answers the id of the session whose log an agent of the torture keeps. It owns
// it, so that the log goes with the agent.
func LogOf(agent string) string { return "log-" + agent }

// TellLog says in one text which events are in a log.
func TellLog(ids []string) string {
	var b strings.Builder
	b.WriteString("log")
	for _, id := range ids {
		_, _ = fmt.Fprintf(&b, ",%s=", id)
	}
	return b.String()
}

const (
	inSessions = "session.state/"
	inEvents   = "session.events/"
	owned      = "%owned/"
	over       = "%over/"
)

// eventsOf are the events of a log, by their places.
func (a *audit) eventsOf(session string) (ids []string) {
	a.under(inEvents+session+"/e/", func(_ string, raw json.RawMessage) {
		var e struct{ ID string }
		_ = json.Unmarshal(raw, &e)
		ids = append(ids, e.ID)
	})
	return ids
}

// logOf says what there is of the log of an agent, "" for none.
func (a *audit) logOf(agent string) string {
	if _, there := a.Records[inSessions+LogOf(agent)]; !there {
		return ""
	}
	return TellLog(a.eventsOf(LogOf(agent)))
}

// logs looks at the sessions, all of which belong to agents here.
func (a *audit) logs(st *AgentStats) {
	agents := map[string]bool{}
	for _, o := range a.agents {
		agents[o.ledger.AgentID] = true
	}
	a.under(inSessions, func(key string, _ json.RawMessage) {
		var s struct {
			ID    string `json:"session_id"`
			Agent string `json:"agent_id"`
		}
		note, rest, _ := strings.Cut(key, "/")
		switch {
		case note+"/" == owned:
			agent, session, _ := strings.Cut(rest, "/")
			if !a.get(inSessions+session, &s) || s.Agent != agent {
				a.fault("orphan", "session %s, which agent %s should own, is of %q", session, agent, s.Agent)
			}
		case note+"/" == over:
			if _, there := a.Records[inSessions+rest]; there {
				a.fault("half", "session %s is there, and its namesake not forgotten", rest)
			}
		case strings.HasPrefix(note, "%"):
			a.fault("orphan", "%s is still to be done", key)
		case !a.get(inSessions+key, &s) || s.ID != key:
			a.fault("half", "session %s says that it is %q", key, s.ID)
		case !agents[s.Agent]:
			a.fault("orphan", "session %s is of agent %q, which is not there", key, s.Agent)
		default:
			if _, there := a.Records[inSessions+owned+s.Agent+"/"+key]; !there {
				a.fault("half", "agent %s does not know of its session %s", s.Agent, key)
			}
			a.log(key)
			st.Logs++
		}
	})
	for at := range a.Records {
		category, key, _ := strings.Cut(at, "/")
		if session, _, _ := strings.Cut(key, "/"); strings.HasPrefix(category, "session.") && category != "session.state" {
			if _, there := a.Records[inSessions+session]; !there {
				a.fault("orphan", "%s is of a session that is not there", at)
			}
			if strings.HasPrefix(key, session+"/e/") {
				st.Events++
			}
		}
	}
}

// log looks at the events of a session.
func (a *audit) log(session string) {
	var h struct{ Last uint64 }
	if !a.get(inEvents+session, &h) {
		a.fault("half", "session %s has no log", session)
	}
	places := map[string]uint64{}
	n := uint64(0)
	a.under(inEvents+session+"/e/", func(seq string, raw json.RawMessage) {
		n++
		var e struct{ ID string }
		if err := json.Unmarshal(raw, &e); err != nil || seq != fmt.Sprintf("%016d", n) {
			a.fault("lost", "event %d of session %s is at %s: %v", n, session, seq, err)
		}
		places[e.ID] = n
	})
	if n != h.Last {
		a.fault("lost", "session %s has %d events, and the last is %d", session, n, h.Last)
	}
	a.under(inEvents+session+"/i/", func(id string, raw json.RawMessage) {
		var p place
		if _ = json.Unmarshal(raw, &p); places[id] == 0 || p.Seq != places[id] {
			a.fault("orphan", "event %s of session %s is found at %d, and is at %d", id, session, p.Seq, places[id])
		}
		delete(places, id)
	})
	for id := range places {
		a.fault("half", "event %s of session %s is not found by its id", id, session)
	}
}
