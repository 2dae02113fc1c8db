package transfer

import (
	"testing"

	"github.com/sagestore/sagestore/agent"
)

// A file of an agent that says nothing of when it was created is the same the second
// time, and replaces nothing.
func TestAgentWithoutATimeComesInOnce(t *testing.T) {
	b := open(t)
	path := file(t, "agent.json", `{"agent_id":"st","agent_type":"assistant","name":"St"}`)
	b.load(t, Options{}, path)
	was, err := b.agents.Load(t.Context(), "st")
	ok(t, err)
	for _, o := range []Options{{}, {Replace: true}, {DryRun: true, Replace: true}} {
		if sum := b.load(t, o, path); sum.Agents.Added != 0 || sum.Agents.There != 1 || len(b.faults)+len(b.remarks) != 0 {
			t.Errorf("%+v: %+v, %v, %v", o, sum, b.faults, b.remarks)
		}
	}
	for info, err := range b.agents.Checkpoints(t.Context(), "st", agent.After{}) {
		ok(t, err)
		t.Errorf("the checkpoint %+v was made", info)
	}
	b.load(t, Options{Replace: true}, file(t, "agent.json", `{"agent_id":"st","agent_type":"assistant","name":"Other"}`))
	is, err := b.agents.Load(t.Context(), "st")
	ok(t, err)
	if is.Name != "Other" || !is.Created.Equal(was.Created) {
		t.Errorf("replaced is %+v, it was %+v", is, was)
	}
}
