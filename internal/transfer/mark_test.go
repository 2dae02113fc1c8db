package transfer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Some editors put a mark before a text which says that it is UTF-8.
func TestMarkBeforeATextIsNoPartOfIt(t *testing.T) {
	for name, text := range map[string]string{
		"agent.json": `{"agent_id":"st","agent_type":"assistant","name":"St"}`,
		"chat.json":  `[{"role":"user","content":"hello"}]`,
		"events.jsonl": `{"jsonrpc":"2.0","method":"app.step","params":{"session_id":"s-1"}}` + "\n" +
			`{"jsonrpc":"2.0","method":"app.step","params":{"session_id":"s-1"}}` + "\n",
	} {
		plain, marked := open(t), open(t)
		want := plain.load(t, Options{}, file(t, name, text))
		got := marked.load(t, Options{}, file(t, name, "\uFEFF"+text))
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(Summary{}, "Files")); d != "" || len(plain.faults)+len(marked.faults) != 0 {
			t.Errorf("%s: %v, %v\n%s", name, plain.faults, marked.faults, d)
		}
	}
}
