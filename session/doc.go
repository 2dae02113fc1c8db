// Package session keeps what a session of an agent app is about: its state,
// and a log of everything that happened in it.
//
//	sessions := session.New(m) // one for each manager; it ends with the manager
//	err := sessions.Start(ctx, session.State{SessionID: "s-1", UserID: "user-42"})
//	prompt, err := session.NewEvent("s-1", "turn-1", session.UserPrompt{Prompt: "hello"})
//	seq, err := sessions.Append(ctx, "s-1", prompt)
//	for e, err := range sessions.Events(ctx, "s-1", 0) { ... }
//	err = sessions.End(ctx, "s-1")
//
// A [State] is put together from parts that live as long as their categories
// say: identity in session.state, context in session.context (until the session
// ends), the queries of the last day in session.history, the user's preferences
// in session.preferences. Load tells which parts had something that is gone.
//
// The log is append-only and in session.events. Its events are JSON-RPC 2.0
// notifications. The payloads that are known have types; whatever else comes is
// kept as it is. Events are in the order in which they were appended, which their
// sequence number tells, whatever the clocks say. An event is stored once,
// however often one with its ID is appended.
//
// Everything works on any tier that the categories are routed to, and joins a
// transaction through [Store.In].
package session
