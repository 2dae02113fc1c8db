// Package knowledge keeps what sessions have loaded, and what that costs.
//
//	k := knowledge.New(m) // one for each manager; it ends with the manager
//	c, err := k.Put(ctx, "s-1", text, knowledge.Unknown)
//	c, err = k.Get(ctx, c.ContentHash)
//	err = k.AddUsage(ctx, knowledge.Usage{ID: "r-1", Session: "s-1", Model: "m", Input: 120, Output: 40})
//	sums, err := k.Usage(ctx, knowledge.ByDay, since, until)
//
// Content is stored once by its SHA-256, in knowledge.bodies, however many sessions
// hold it; the references of the sessions are in knowledge.content. It goes with
// the last reference, and these end with their sessions.
//
// How often content was loaded is exact in the process at once, and written to
// knowledge.access every few seconds and when the manager is closed.
//
// The ledger of token usage, knowledge.usage, has sums for each session, model and
// day (in UTC), and counts an event once however often it is told. Beside it
// knowledge.tokens has live counters, which are gone an hour after the last use and
// may miss some.
package knowledge
