package sessionlog

import (
	"strings"

	"github.com/sagestore/sagestore/manager"
)

// Notes in session.state. No session's key begins with one, since "%" is followed by
// two digits there.
const (
	// Ending is there from the commit that ends a session, or lets it go on, until the
	// manager knows it too.
	Ending = "%ending/" // SESSION
	gone   = "%gone/"   // SESSION: what it held is being removed
	over   = "%over/"   // SESSION: it was removed, and the manager takes it for ended
	owned  = "%owned/"  // AGENT/SESSION
)

// IsNote tells whether a key of session.state is that of a note, and not of a session.
func IsNote(key string) bool {
	for _, prefix := range []string{Ending, gone, over, owned} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// Key is that of a session in session.state, and of its log in session.events.
func Key(session string) string { return manager.Key(session) }

// Events is what the keys of a session's events, or of the index of their IDs, begin
// with: kind is "e" or "i".
func Events(session, kind string) string { return manager.Key(session, kind) + "/" }

func ownedBy(agent string) string { return owned + manager.Key(agent) + "/" }

// agentKey is where package agent says in agent.state that there is an agent. It is
// written when the agent is created and removed when it is deleted, and not between.
func agentKey(id string) string { return "id/" + manager.Key(id) }
