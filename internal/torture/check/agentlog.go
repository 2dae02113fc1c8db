package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Absent is what is said of an agent that is not there.
const Absent = "absent"

// Agents that many goroutines work with: all append to Shared, and keep it; they do
// anything to those whose ids begin with Brawl.
const (
	Shared = "shared"
	Brawl  = "brawl"
)

// Told says in one text what there is of each agent: how many steps it has done, and
// each conversation with the ids of its messages and what they say, and the events of its
// log. Ids of
// conversations are left out, since a fork gives others.
func (a *Agents) Told() map[string]string {
	w := a.audit()
	all := map[string]string{}
	for _, o := range w.agents {
		var custom struct{ Value int }
		w.get(inState+"own/"+o.au+"/steps", &custom)
		var talks []string
		w.under(inConversations+"head/"+o.au+"/", func(_ string, raw json.RawMessage) {
			var h head
			_ = json.Unmarshal(raw, &h)
			talk := Talk{Archived: h.Archived}
			w.under(inConversations+"msg/"+o.au+"/"+h.Inner+"/", func(_ string, raw json.RawMessage) {
				var m message
				_ = json.Unmarshal(raw, &m)
				said := Said{ID: m.ID, Text: m.Content}
				for _, at := range m.Attachments {
					said.Sizes = append(said.Sizes, at.Size)
				}
				for _, c := range m.Calls {
					said.Calls = append(said.Calls, c.Status)
				}
				talk.Messages = append(talk.Messages, said)
			})
			talks = append(talks, talk.String())
		})
		all[o.ledger.AgentID] = Tell(custom.Value, talks, w.logOf(o.ledger.AgentID))
	}
	return all
}

// Steps answers the iteration of the run of each agent that has one, and how many
// steps the agent itself has noted.
func (a *Agents) Steps() map[string][2]int {
	w := a.audit()
	all := map[string][2]int{}
	for _, o := range w.agents {
		var run struct{ Iteration int }
		var custom struct{ Value int }
		if w.get(inCheckpoints+"run/"+o.au, &run) {
			w.get(inState+"own/"+o.au+"/steps", &custom)
			all[o.ledger.AgentID] = [2]int{run.Iteration, custom.Value}
		}
	}
	return all
}

// Talk is a conversation, as it is told.
type Talk struct {
	Archived bool
	Messages []Said
}

// Said is a message.
type Said struct {
	ID, Text string
	Sizes    []int64  // of attachments
	Calls    []string // status of tool calls
}

func (t Talk) String() string {
	var b strings.Builder
	if t.Archived {
		b.WriteString("archived")
	}
	for _, m := range t.Messages {
		_, _ = fmt.Fprintf(&b, ",%s=%s", m.ID, m.Text)
		if len(m.Sizes)+len(m.Calls) > 0 {
			_, _ = fmt.Fprintf(&b, "%v%v", m.Sizes, m.Calls)
		}
	}
	return b.String()
}

// Tell puts together what is told of an agent; log is that of TellLog, or empty.
func Tell(steps int, talks []string, log string) string {
	talks = slices.Sorted(slices.Values(talks))
	return fmt.Sprintf("%d steps;%s;%s", steps, strings.Join(talks, ";"), log)
}

// AgentRound is what happened to agents between two looks at them. Each agent is
// changed by one goroutine; [Line.Writes] has its id, and what there is to be of it
// afterwards.
type AgentRound struct {
	Logs   [][]Line
	Before map[string]string // as Told says it
	After  map[string]string
}

// Check answers what is wrong: an agent that is neither what was acknowledged last nor
// what was on its way.
func (r AgentRound) Check() (faults []Fault) {
	may := map[string][]string{}
	at := func(agent string) []string {
		if may[agent] == nil {
			told, there := r.Before[agent]
			if !there {
				told = Absent
			}
			may[agent] = []string{told}
		}
		return may[agent]
	}
	for _, log := range r.Logs {
		tried := map[string]Cell{}
		for _, l := range log {
			switch l.Kind {
			case Bad:
				faults = append(faults, faultf("worker", "%s", l.Text))
			case Try:
				w := l.Writes[0]
				if tried[l.Op] = w; w.At == Shared {
					continue
				}
				may[w.At] = append(at(w.At), w.Op)
			case Ack:
				w, ok := tried[l.Op]
				switch {
				case ok && w.At != Shared:
					may[w.At] = []string{w.Op}
				case ok && !strings.Contains(r.After[Shared], ","+w.Op+"="):
					faults = append(faults, faultf("lost", "message or event %s, which was acknowledged", w.Op))
				}
			case Fail:
				if w, ok := tried[l.Op]; ok {
					may[w.At] = at(w.At)[:len(may[w.At])-1]
				}
			}
		}
	}
	for agent := range r.After {
		if agent != Shared && !strings.HasPrefix(agent, Brawl) {
			at(agent)
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(may)) {
		told, there := r.After[agent]
		if !there {
			told = Absent
		}
		if !slices.Contains(may[agent], told) {
			faults = append(faults, faultf("lost", "agent %s is %q, and may be %q", agent, told, may[agent]))
		}
	}
	return faults
}
