//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/torture/check"
)

// worked are the records of agents that nobody has killed.
func worked(t *testing.T, route string, seed uint64) (a check.Agents, logged []check.Line, st check.AgentStats) {
	t.Helper()
	dir := t.TempDir()
	s := spec{
		Store: store{Dir: filepath.Join(dir, "data"), Agents: route, Normal: true},
		Log:   filepath.Join(dir, "log"), Name: "r0", Callers: 4, Ops: 60, Seed: seed, Answers: filepath.Join(dir, "answers"),
	}
	if err := workAgents(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := recoverStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(s.Answers)
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := check.Read(t.Context(), s.Store.places())
	if err != nil {
		t.Fatal(err)
	}
	logged, err = check.ReadLog(s.Log)
	if err != nil || len(found.Faults) > 0 {
		t.Fatal(err, found.Faults)
	}
	return found.Agents, logged, st
}

// TestEachLossAmongAgentsIsFound takes one record of each kind away from sound agents,
// or changes it, and looks whether the checker sees that. Which kinds are left in the end
// depends on who came first, so that it goes on until it has met them all.
func TestEachLossAmongAgentsIsFound(t *testing.T) {
	t.Parallel()
	const all = 27
	met := map[string]bool{}
	for seed := uint64(2); len(met) < all && seed < 22 && !t.Failed(); seed++ {
		for _, kind := range findEachLoss(t, seed) {
			met[kind] = true
		}
	}
	if len(met) < all {
		t.Errorf("only %d kinds of records: %v", len(met), slices.Sorted(maps.Keys(met)))
	}
}

// findEachLoss answers the kinds of records that it has tried.
func findEachLoss(t *testing.T, seed uint64) []string {
	t.Helper()
	a, logged, st := worked(t, agentRoutes()[0], seed)
	if counted, faults := a.Check(); len(faults) > 0 || counted != st {
		t.Fatalf("sound agents have faults: %v; the store counts %+v, and there are %+v", faults, st, counted)
	}
	kinds := map[string]string{} // one key of each kind
	for at := range a.Records {
		category, key, _ := strings.Cut(at, "/")
		kind, _, _ := strings.Cut(key, "/")
		if category == "agent.fields" {
			kind = ""
		}
		if strings.HasPrefix(category, "session.") && kind != "%owned" {
			if kind == "%over" {
				continue // it says of what is not there that it was
			}
			of, rest, _ := strings.Cut(strings.TrimPrefix(key, kind), "/")
			kind, _, _ = strings.Cut(of+rest, "/") // e and i of the log of a session
		}
		if (kind == "mid" || kind == "call") && !leads(a, at) {
			continue // it stays for a message that is deleted, and nothing says that it has to
		}
		if was := kinds[category+"/"+kind]; was == "" || at < was {
			kinds[category+"/"+kind] = at
		}
	}
	finds := func(what string, change func(check.Agents)) {
		t.Helper()
		b := check.Agents{Records: maps.Clone(a.Records), Placed: maps.Clone(a.Placed), Index: maps.Clone(a.Index)}
		change(b)
		if counted, faults := b.Check(); len(faults) == 0 && counted == st {
			t.Errorf("%s, and nothing is found", what)
		}
	}
	for kind, at := range kinds {
		raw := string(a.Records[at])
		switch kind {
		case "agent.checkpoints/run", "agent.fields/": // nothing says that there has to be one
		default:
			finds(at+" is missing", func(a check.Agents) { delete(a.Records, at) })
		}
		finds(at+" is of another agent", func(a check.Agents) {
			if category, key, _ := strings.Cut(at, "/"); strings.HasPrefix(category, "session.") {
				a.Records[category+"/x"+key] = a.Records[at]
				delete(a.Records, at)
				return
			}
			first, rest, _ := strings.Cut(strings.TrimPrefix(at, kind+"/"), "/")
			if kind == "agent.fields/" {
				first, rest, _ = strings.Cut(strings.TrimPrefix(at, "agent.fields/"), "/")
			}
			a.Records[strings.TrimSuffix(kind, "/")+"/x"+first+"/"+rest] = a.Records[at]
			delete(a.Records, at)
		})
		for from, to := range map[string]string{
			`"count":`: `"count":1`, `"last":`: `"last":1`, `"untagged":`: `"untagged":1`, `"bytes":`: `"bytes":1`, `"sum":"`: `"sum":"f`,
			`"messages":`: `"messages":1`, `"sha256":"`: `"sha256":"f`, `"seq":`: `"seq":1`, `"content":"`: `"content":"x`,
		} {
			if strings.Contains(raw, from) && (kind != "agent.state/now" || from != `"last":`) {
				finds(fmt.Sprintf("%s has %s", at, to), func(a check.Agents) {
					a.Records[at] = json.RawMessage(strings.Replace(raw, from, to, 1))
				})
			}
		}
	}
	for at, raw := range a.Records {
		if log, is := strings.CutPrefix(at, "session.state/log-"); is {
			finds("log "+log+" is left by an agent that is gone", func(a check.Agents) {
				a.Records[at] = json.RawMessage(strings.Replace(string(raw), `"agent_id":"`, `"agent_id":"gone-`, 1))
				note := "session.state/%owned/" + log + "/log-" + log
				a.Records["session.state/%owned/gone-"+log+"/log-"+log] = a.Records[note]
				delete(a.Records, note)
			})
			break
		}
	}
	finds("an entry of the index is missing", func(a check.Agents) { a.Index["search_parts"] = a.Index["search_parts"][1:] })
	finds("the index has an entry of nothing", func(a check.Agents) { a.Index["search_words"] = append([]int64{1 << 60}, a.Index["search_words"]...) })

	r := check.AgentRound{Logs: [][]check.Line{logged}, After: a.Told()}
	if faults := r.Check(); len(faults) > 0 {
		t.Fatalf("nobody was killed: %v", faults)
	}
	for id := range r.After {
		if strings.HasPrefix(id, check.Brawl) {
			continue
		}
		less := check.AgentRound{Logs: r.Logs, After: maps.Clone(r.After)}
		if less.After[id] = "another"; len(less.Check()) == 0 {
			t.Errorf("agent %s is another than was acknowledged, and nobody finds it", id)
		}
	}
	return slices.Collect(maps.Keys(kinds))
}

// leads tells whether the message that a record finds is there.
func leads(a check.Agents, at string) bool {
	of := strings.Split(at, "/") // category, kind, agent, conversation
	var p struct{ Seq uint64 }
	_ = json.Unmarshal(a.Records[at], &p)
	_, there := a.Records[fmt.Sprintf("%s/msg/%s/%s/%010d", of[0], of[2], of[3], p.Seq)]
	return there
}
