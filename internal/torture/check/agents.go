package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Agents are the records of agents and of their sessions, by CATEGORY/KEY, and the places of those that are
// in the full-text index.
type Agents struct {
	Records map[string]json.RawMessage
	Placed  map[string]int64 // place in the index, by CATEGORY/KEY
	Index   map[string][]int64
}

// AgentStats are counts, as a store gives them and as they are found.
type AgentStats struct {
	Agents, Conversations, Checkpoints, Messages, Bytes int64
	Logs, Events                                        int64 // sessions of agents, and what they log
}

// put takes a record of agents, in the form that sums are taken of.
func (a *Agents) put(at string, value []byte) error {
	var text bytes.Buffer
	if err := json.Compact(&text, value); err != nil {
		return err
	}
	if a.Records == nil {
		a.Records = map[string]json.RawMessage{}
	}
	a.Records[at] = text.Bytes()
	return nil
}

// The parts of records that matter here.
type (
	ledger struct {
		AgentID  string `json:"agent_id"`
		Last     uint64 `json:"last"`
		Newest   uint64 `json:"newest"`
		Untagged int    `json:"untagged"`
		Kept     int    `json:"kept"`
		Total    totals `json:"total"`
		Rounds   uint64 `json:"rounds"`
	}
	unit struct {
		totals
		Next  uint64 `json:"next"`
		Round uint64 `json:"round"`
		Dead  bool   `json:"dead"`
	}
	head struct {
		Inner    string `json:"inner"`
		ID       string `json:"id"`
		AgentID  string `json:"agent_id"`
		Archived bool   `json:"archived"`
	}
	message struct {
		ID          string         `json:"id"`
		Content     string         `json:"content"`
		Contents    map[int]string `json:"contents"`
		Attachments []struct {
			Size int64 `json:"size"`
		} `json:"attachments"`
		Calls []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"tool_calls"`
	}
	place struct {
		Seq     uint64 `json:"seq"`
		Deleted bool   `json:"deleted"`
	}
	info struct {
		ID           string `json:"id"`
		Conversation string `json:"conversation"`
		Kind         string `json:"kind"`
		Name         string `json:"name"`
		Iteration    int    `json:"iteration"`
		Keep         bool   `json:"keep"`
		SHA256       string `json:"sha256"`
		Size         int64  `json:"size"`
		Messages     int    `json:"messages"`
		Copy         bool   `json:"copy"`
	}
)

const (
	inState         = "agent.state/"
	inConversations = "agent.conversations/"
	inCheckpoints   = "agent.checkpoints/"
	inFields        = "agent.fields/"
)

// one is an agent as it is found.
type one struct {
	au     string
	ledger ledger
	infos  map[uint64]info
	heads  map[string]head // by inner name
	past   []past
}

// past is a record of the history.
type past struct {
	until, since uint64
	part         string
	raw          json.RawMessage
}

// audit looks at the records of agents.
type audit struct {
	*Agents
	keys   []string        // of the records, in order
	agents map[string]*one // by inner name
	faults []Fault
}

// audit finds the agents.
func (a *Agents) audit() *audit {
	w := &audit{Agents: a, keys: slices.Sorted(maps.Keys(a.Records)), agents: map[string]*one{}}
	w.find()
	return w
}

func (a *audit) fault(kind, format string, args ...any) {
	a.faults = append(a.faults, faultf(kind, format, args...))
}

// under yields what has a prefix, by the rest of the key and in order.
func (a *audit) under(prefix string, visit func(rest string, raw json.RawMessage)) {
	first, _ := slices.BinarySearch(a.keys, prefix)
	for _, at := range a.keys[first:] {
		rest, is := strings.CutPrefix(at, prefix)
		if !is {
			return
		}
		visit(rest, a.Records[at])
	}
}

// get decodes a record, and tells whether it is there.
func (a *audit) get(at string, into any) bool {
	raw, there := a.Records[at]
	if there {
		if err := json.Unmarshal(raw, into); err != nil {
			a.fault("corrupt", "%s: %v", at, err)
		}
	}
	return there
}

// Check answers what is wrong with the agents, and what there is of them. Nobody may
// be at work, and what interrupted deletions have left has to be removed.
func (a *Agents) Check() (AgentStats, []Fault) {
	w := a.audit()
	w.orphans()
	st := AgentStats{Agents: int64(len(w.agents))}
	for _, au := range slices.Sorted(maps.Keys(w.agents)) {
		w.conversations(w.agents[au], &st)
		w.own(w.agents[au], &st)
		w.checkpoints(w.agents[au], &st)
	}
	w.logs(&st)
	w.index()
	return st, w.faults
}

// find gathers the agents.
func (a *audit) find() {
	a.under(inState+"id/", func(id string, _ json.RawMessage) {
		var ref struct {
			Inner string `json:"inner"`
		}
		a.get(inState+"id/"+id, &ref)
		o := &one{au: ref.Inner, infos: map[uint64]info{}, heads: map[string]head{}}
		if a.agents[o.au] != nil {
			a.fault("half", "agents %s and %s are one", id, a.agents[o.au].ledger.AgentID)
		}
		a.agents[o.au] = o
		var h head
		if !a.get(inState+"now/"+o.au, &o.ledger) || o.ledger.AgentID != id {
			a.fault("half", "agent %s has the numbers of %q", id, o.ledger.AgentID)
		}
		if !a.get(inState+"head/"+id, &h) || h.Inner != o.au {
			a.fault("half", "agent %s has a head of %q, want %q", id, h.Inner, o.au)
		}
		if _, there := a.Records[inState+"sum/"+o.au]; !there {
			a.fault("half", "agent %s has no sum", id)
		}
	})
	a.under(inState+"head/", func(id string, _ json.RawMessage) {
		if _, there := a.Records[inState+"id/"+id]; !there {
			a.fault("orphan", "the head of agent %s, which is not there", id)
		}
	})
	for _, in := range []string{inState, inConversations} {
		for _, o := range a.agents {
			a.under(in+"hist/"+o.au+"/", func(rest string, raw json.RawMessage) {
				until, rest, _ := strings.Cut(rest, "/")
				since, part, _ := strings.Cut(rest, "/")
				u, err1 := strconv.ParseUint(until, 10, 64)
				s, err2 := strconv.ParseUint(since, 10, 64)
				if err1 != nil || err2 != nil || s >= u {
					a.fault("corrupt", "history %s of %s", rest, o.ledger.AgentID)
				}
				o.past = append(o.past, past{u, s, part, raw})
			})
		}
	}
}

// orphans looks for records of agents that are not there.
func (a *audit) orphans() {
	inner := []string{"own", "now", "sum", "live", "msg", "mid", "call", "dirty", "blob", "refs", "hist", "info", "copy", "run"}
	for at := range a.Records {
		category, key, _ := strings.Cut(at, "/")
		class, rest, _ := strings.Cut(key, "/")
		first, _, _ := strings.Cut(rest, "/")
		switch {
		case strings.HasPrefix(category, "session."): // see logs
		case class == "gone":
			a.fault("orphan", "%s is still to be removed", at)
		case category == "agent.fields":
			if _, there := a.Records[inState+"id/"+class]; !there {
				a.fault("orphan", "the field %s of an agent that is not there", key)
			}
		case slices.Contains(inner, class) || category == "agent.conversations" && class == "head":
			if a.agents[first] == nil {
				a.fault("orphan", "%s is of an agent that is not there", at)
			}
		case class != "id" && class != "head":
			a.fault("orphan", "%s is nothing that is known", at)
		}
	}
	a.under(inConversations+"id/", func(id string, _ json.RawMessage) {
		var ref struct{ Agent, Inner string }
		var h head
		a.get(inConversations+"id/"+id, &ref)
		if !a.get(inConversations+"head/"+ref.Agent+"/"+id, &h) || h.Inner != ref.Inner || a.agents[ref.Agent] == nil {
			a.fault("orphan", "the id of conversation %s leads nowhere", id)
		}
	})
	a.under(inCheckpoints+"id/", func(id string, _ json.RawMessage) {
		var ref struct {
			Agent  string
			Number uint64
		}
		var r info
		a.get(inCheckpoints+"id/"+id, &ref)
		if !a.get(inCheckpoints+"info/"+ref.Agent+"/"+numbered(ref.Number), &r) || r.ID != id || a.agents[ref.Agent] == nil {
			a.fault("orphan", "the id of checkpoint %s leads nowhere", id)
		}
	})
}

func numbered(n uint64) string { return fmt.Sprintf("%010d", n) }

// conversations looks at the conversations of an agent.
func (a *audit) conversations(o *one, st *AgentStats) {
	prefix := inConversations + "head/" + o.au + "/"
	a.under(prefix, func(id string, _ json.RawMessage) {
		var h head
		var ref struct{ Agent, Inner string }
		a.get(prefix+id, &h)
		if !a.get(inConversations+"id/"+id, &ref) || ref.Agent != o.au || ref.Inner != h.Inner || h.AgentID != o.ledger.AgentID {
			a.fault("half", "conversation %s of %s is found as %v", id, o.ledger.AgentID, ref)
		}
		if _, live := a.Records[inConversations+"live/"+o.au+"/"+id]; live == h.Archived {
			a.fault("half", "conversation %s is archived: %v, active: %v", id, h.Archived, live)
		}
		o.heads[h.Inner] = h
		st.Conversations++
	})
	a.under(inConversations+"live/"+o.au+"/", func(id string, _ json.RawMessage) {
		if _, there := a.Records[prefix+id]; !there {
			a.fault("orphan", "active conversation %s is not there", id)
		}
	})
	inners := map[string]bool{}
	for _, class := range []string{"msg", "mid", "call", "sum", "blob", "refs"} {
		a.under(inConversations+class+"/"+o.au+"/", func(rest string, _ json.RawMessage) {
			cu, _, _ := strings.Cut(rest, "/")
			inners[cu] = true
		})
	}
	for _, cu := range slices.Sorted(maps.Keys(inners)) {
		a.conversation(o, cu, st)
	}
	for cu := range o.heads {
		if !inners[cu] {
			a.fault("half", "a conversation of %s has no counts", o.ledger.AgentID)
		}
	}
	a.total(o, inners)
}

// conversation looks at one conversation, which may be deleted and shown by a
// checkpoint.
func (a *audit) conversation(o *one, cu string, st *AgentStats) {
	h, live := o.heads[cu]
	what := fmt.Sprintf("conversation %s (%s) of %s", h.ID, cu, o.ledger.AgentID)
	var u unit
	if !a.get(inConversations+"sum/"+o.au+"/"+cu, &u) {
		a.fault("orphan", "%s has no counts", what)
	}
	if shown := slices.ContainsFunc(o.past, func(p past) bool { return p.part == "c/"+cu }); live == u.Dead || !live && !shown {
		a.fault("orphan", "%s is live: %v, dead: %v, shown: %v", what, live, u.Dead, shown)
	}
	want := totals{Conversations: u.Conversations}
	if live {
		want.Conversations = 1
		want.count("h/"+h.ID, a.Records[inConversations+"head/"+o.au+"/"+h.ID])
	}
	held := map[string]int{}
	hold := func(raw json.RawMessage) {
		var m message
		_ = json.Unmarshal(raw, &m)
		for _, hash := range slices.Compact(slices.Sorted(maps.Values(m.Contents))) {
			held[hash]++
		}
	}
	at := o.au + "/" + cu + "/"
	ids := map[string]uint64{}
	there := map[uint64]bool{}
	a.under(inConversations+"msg/"+at, func(rest string, raw json.RawMessage) {
		seq, err := strconv.ParseUint(rest, 10, 64)
		var m message
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil || seq >= u.Next {
			a.fault("corrupt", "message %s of %s, the next is %d: %v", rest, what, u.Next, err)
		}
		want.Messages++
		want.count("m/"+cu+"/"+rest, raw)
		ids[m.ID], there[seq] = seq, true
		for _, c := range m.Calls {
			var p place
			if !a.get(inConversations+"call/"+at+c.ID, &p) || p.Seq != seq {
				a.fault("half", "call %s of %s is found at %d, and is at %d", c.ID, what, p.Seq, seq)
			}
		}
		hold(raw)
	})
	for _, p := range o.past {
		if strings.HasPrefix(p.part, "m/"+cu+"/") {
			hold(p.raw)
		}
	}
	if u.totals != want {
		a.fault("count", "%s counts %v, and has %v", what, &u.totals, &want)
	}
	st.Bytes += u.Bytes
	if live {
		st.Messages += int64(want.Messages)
	}
	a.places(what, at, ids, there)
	a.contents(what, at, held, st)
}

// places looks at what finds messages.
func (a *audit) places(what, at string, ids map[string]uint64, there map[uint64]bool) {
	deleted := map[uint64]bool{}
	a.under(inConversations+"mid/"+at, func(id string, raw json.RawMessage) {
		var p place
		_ = json.Unmarshal(raw, &p)
		seq, found := ids[id]
		if found == p.Deleted || found && seq != p.Seq {
			a.fault("orphan", "message %s of %s is found at %v, and is at %d: %v", id, what, p, seq, found)
		}
		delete(ids, id)
		if p.Deleted {
			deleted[p.Seq] = true
		}
	})
	for id := range ids {
		a.fault("half", "message %s of %s is not found by its id", id, what)
	}
	a.under(inConversations+"call/"+at, func(id string, raw json.RawMessage) {
		var p place
		if _ = json.Unmarshal(raw, &p); !there[p.Seq] && !deleted[p.Seq] {
			a.fault("orphan", "call %s of %s is at %d, where nothing is", id, what, p.Seq)
		}
	})
}

// contents looks at the contents of attachments and who holds them.
func (a *audit) contents(what, at string, held map[string]int, st *AgentStats) {
	a.under(inConversations+"refs/"+at, func(hash string, raw json.RawMessage) {
		var n struct{ Count int }
		if _ = json.Unmarshal(raw, &n); n.Count != held[hash] || n.Count == 0 {
			a.fault("count", "content %.8s of %s is held by %d, and by %d it says", hash, what, held[hash], n.Count)
		}
	})
	a.under(inConversations+"blob/"+at, func(hash string, raw json.RawMessage) {
		var text string
		_ = json.Unmarshal(raw, &text)
		if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != hash {
			a.fault("corrupt", "content %.8s of %s is another", hash, what)
		}
		if _, there := a.Records[inConversations+"refs/"+at+hash]; !there || held[hash] == 0 {
			a.fault("orphan", "content %.8s of %s, which nothing holds", hash, what)
		}
		delete(held, hash)
		st.Bytes += int64(len(raw))
	})
	for hash := range held {
		a.fault("half", "content %.8s of %s is missing", hash, what)
	}
}

// total looks at the totals of all conversations, as of the last checkpoint.
func (a *audit) total(o *one, inners map[string]bool) {
	var sum totals
	dirty := map[string]bool{}
	a.under(inConversations+"dirty/"+o.au+"/", func(cu string, raw json.RawMessage) {
		var t totals
		if err := json.Unmarshal(raw, &t); err != nil || len(t.Sum)%64 != 0 {
			a.fault("corrupt", "dirty/%s: %v", cu, err)
		}
		sum.add(t)
		dirty[cu] = true
	})
	for cu := range inners {
		var u unit
		a.get(inConversations+"sum/"+o.au+"/"+cu, &u)
		if (u.Round == o.ledger.Rounds+1) != dirty[cu] {
			a.fault("count", "conversation %s of %s was changed in round %d of %d, noted: %v", cu, o.ledger.AgentID, u.Round, o.ledger.Rounds, dirty[cu])
		}
		if !dirty[cu] && !u.Dead {
			sum.add(u.totals)
		}
	}
	if sum != o.ledger.Total {
		a.fault("count", "the conversations of %s had %v at the last checkpoint, it says %v", o.ledger.AgentID, &sum, &o.ledger.Total)
	}
}

// own looks at an agent's own records.
func (a *audit) own(o *one, st *AgentStats) {
	var u unit
	var want totals
	a.get(inState+"sum/"+o.au, &u)
	want.count("h", a.Records[inState+"head/"+o.ledger.AgentID])
	a.under(inState+"own/"+o.au+"/", func(name string, raw json.RawMessage) { want.count("o/"+name, raw) })
	if u.totals != want {
		a.fault("count", "agent %s counts %v, and has %v", o.ledger.AgentID, &u.totals, &want)
	}
	st.Bytes += u.Bytes
	for _, p := range o.past {
		st.Bytes += int64(len(p.raw))
	}
}

// index looks at the full-text index: it holds an entry for each message that is one
// of the database, and no other.
func (a *audit) index() {
	for table, ids := range a.Index {
		placed := map[int64]string{}
		for at, n := range a.Placed {
			placed[n] = at
		}
		for _, id := range ids {
			if placed[id] == "" {
				a.fault("orphan", "entry %d of %s is of no record", id, table)
			}
			delete(placed, id)
		}
		for id, at := range placed {
			a.fault("half", "%s has no entry %d in %s", at, id, table)
		}
	}
	for at := range a.Placed {
		if !strings.HasPrefix(at, inConversations+"msg/") {
			a.fault("orphan", "%s is in the index", at)
		}
	}
}
