// Package agent keeps agents, their conversations and their checkpoints.
//
//	agents := agent.New(m)
//	a := agent.NewState("support", "Support", "gpt-5")
//	err := agents.Save(ctx, a)
//	c := agent.NewConversation(a.ID)
//	err = agents.SaveConversation(ctx, c)
//	_, err = agents.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "Hello"))
//
// It works on whatever tiers its categories agent.state, agent.conversations,
// agent.checkpoints and agent.fields are routed to, and [Store.In] lets its work join a
// transaction. Everything is safe for concurrent use; what two callers do to one agent
// comes one after the other.
//
// Appending costs the same whatever is there. A checkpoint costs one small record:
// it shares what it shows with the present, and what changes later is copied for it
// then.
package agent
