// Package sessionlog deletes the sessions of package session: by themselves, and with
// the agent that owns them. Packages session and agent know no more of each other.
//
// A deletion is one commit, which removes what leads to a session and leaves a note of
// what is to be removed. Nobody reaches that any more, so it goes afterwards, in
// chunks, each together with a look at the note: whoever is late removes nothing of a
// session that was begun under the same id since.
package sessionlog
