package transfer

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"

	"github.com/sagestore/sagestore/agent"
)

// imprint is what is remembered of a message, to tell another one with its id.
type imprint struct {
	sum    [sha256.Size]byte
	stored bool // it was there before the import
}

// meet tells whether a message with that id is known, and whether it says the same.
// One that is not known is from then on.
func (st *standing) meet(m agent.Message) (there, same bool) {
	was, there := st.known[m.ID]
	if there && was.stored {
		if of(m) != was.sum {
			return true, false
		}
		st.known[m.ID] = imprint{sum: withResults(m)} // the file says more than the comparison looks at
		return true, true
	}
	sum := withResults(m)
	if there {
		return true, was.sum == sum
	}
	st.known[m.ID] = imprint{sum: sum}
	return false, false
}

// of answers what a message says. Left out is what a store fills in, such as the
// results of tool calls, and the time, which may be that of the file.
func of(m agent.Message) [sha256.Size]byte {
	calls := make([]agent.ToolCall, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		calls[i] = agent.ToolCall{ID: c.ID, Name: c.Name, Arguments: settled(c.Arguments)}
	}
	m.ToolCalls, m.Tokens = calls, nil
	return sumOf(m)
}

// withResults is of, with the results as the file says them.
func withResults(m agent.Message) [sha256.Size]byte {
	calls := make([]agent.ToolCall, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		c.Arguments = settled(c.Arguments)
		calls[i] = c
	}
	m.ToolCalls = calls
	return sumOf(m)
}

func sumOf(m agent.Message) [sha256.Size]byte {
	own := struct { // without the methods and the time
		Role, Content, Parent string
		Tokens                *int
		Calls                 []agent.ToolCall
		Attachments           []agent.Attachment
		Metadata              map[string]string
	}{string(m.Role), m.Content, m.ParentID, m.Tokens, m.ToolCalls, nil, m.Metadata}
	if len(own.Metadata) == 0 {
		own.Metadata = nil
	}
	for _, a := range m.Attachments {
		a.ID = "" // made by the store when it is empty
		if a.Content != "" {
			a.Size = 0
		}
		own.Attachments = append(own.Attachments, a)
	}
	text, err := json.Marshal(own)
	if err != nil {
		return sha256.Sum256([]byte(m.Content)) // arguments always are JSON, see settled
	}
	return sha256.Sum256(text)
}

// settled answers arguments as a store keeps them.
func settled(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	switch {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case json.Compact(&b, raw) != nil:
		return quoted(string(raw))
	}
	return b.Bytes()
}
