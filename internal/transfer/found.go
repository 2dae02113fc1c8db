package transfer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/session"
)

// Format is what a file holds.
type Format string

// The formats that are known, in the order in which they are imported: what others
// refer to comes first.
const (
	Own                 Format = "export"               // of this package, see [ExportAgent]
	AgentFile           Format = "agent"                // one JSON file an agent
	FieldFile           Format = "fields"               // one JSON file of an agent's fields, called NAME_0123456789abcdef.json
	Database            Format = "database"             // SQLite: tables of events, checkpoints, or fields
	ConversationFile    Format = "conversation"         // one JSON file a conversation
	CodeLog             Format = "code session log"     // JSON Lines of a coding agent, with uuid and sessionId
	Chat                Format = "chat"                 // a JSON array of messages with roles, or an object with messages
	ChatLines           Format = "chat lines"           // JSON Lines, a message or a whole chat each
	Trajectory          Format = "trajectory"           // one JSON file with a history
	AgentCheckpoint     Format = "agent checkpoint"     // one JSON file with agent_state and conversations
	IterationCheckpoint Format = "iteration checkpoint" // one JSON file with a conversation and an iteration
	PortableCheckpoint  Format = "portable checkpoint"  // see [agent.Checkpoint.Bytes]
	SessionLog          Format = "session log"          // JSON Lines of JSON-RPC notifications
)

// rank answers the place of a format in that order.
func (f Format) rank() int {
	for i, g := range []Format{
		Own, AgentFile, FieldFile, Database, ConversationFile, CodeLog, Chat, ChatLines, Trajectory,
		AgentCheckpoint, IterationCheckpoint, PortableCheckpoint, SessionLog,
	} {
		if f == g {
			return i
		}
	}
	return -1
}

// Fault is something that could not be brought in.
type Fault struct { //nolint:errname // it is told more often than returned
	File  string
	Line  int    // 0: the whole file, or a row
	Where string // the row of a table
	Err   error
}

// Error names file and line.
func (f *Fault) Error() string {
	at := f.File
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Where != "" {
		at += ": " + f.Where
	}
	return fmt.Sprintf("%s: %v", at, f.Err)
}

// Unwrap answers what is wrong.
func (f *Fault) Unwrap() error { return f.Err }

// found is a piece that a reader has found: one of the pointers is set.
type found struct {
	line  int
	where string

	agent      *agent.State
	checkpoint *agent.Checkpoint
	fields     *fields
	session    *session.State
	events     *log

	// conversation is a head with some of its messages, which may come in several
	// pieces; lines are those of the messages. With titled it has no title of its own
	// and gets one from what is said.
	conversation *agent.Conversation
	lines        []int
	titled       bool
}

// fields are those of one key.
type fields struct {
	key    string
	values map[string]json.RawMessage
	lines  map[string]int // of the file, by name; nil: all of it
}

// derived answers an id that depends on nothing but the parts.
func derived(parts ...string) string {
	var all []byte
	for _, p := range parts {
		all = binary.AppendUvarint(all, uint64(len(p)))
		all = append(all, p...)
	}
	space := uuid.UUID{0x6f, 0x1c, 0x6d, 0x3e, 0x52, 0xc0, 0x5b, 0x0a, 0x9d, 0x0b, 0x6a, 0x1d, 0x0f, 0x5c, 0x7f, 0x11}
	return uuid.NewSHA1(space, all).String()
}

// instant reads a time: seconds since 1970, milliseconds when that would be beyond
// the year 5000, or RFC 3339.
func instant(raw json.RawMessage) time.Time {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t.UTC()
		}
		return time.Time{}
	}
	var seconds json.Number
	if json.Unmarshal(raw, &seconds) != nil {
		return time.Time{}
	}
	const beyond = 100_000_000_000
	if n, err := seconds.Int64(); err == nil {
		switch {
		case n <= 0:
			return time.Time{}
		case n < beyond:
			return time.Unix(n, 0).UTC()
		}
		return time.UnixMilli(n).UTC()
	}
	f, err := seconds.Float64()
	if err != nil || f <= 0 || f > beyond {
		return time.Time{}
	}
	return time.UnixMicro(int64(f * 1e6)).UTC()
}
