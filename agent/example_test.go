package agent_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
)

// example is a store of agents in memory, with one agent and one conversation.
func example(ctx context.Context) (m *manager.Manager, agents *agent.Store, conversation string) {
	m, err := manager.OpenMemory(ctx, tiers.Drivers{memory.Driver()})
	if err != nil {
		panic(err)
	}
	agents = agent.New(m)
	c := agent.NewConversation("support")
	if err := agents.Save(ctx, agent.NewState("support", "Support", "gpt-5")); err != nil {
		panic(err)
	}
	if err := agents.SaveConversation(ctx, c); err != nil {
		panic(err)
	}
	return m, agents, c.ID
}

func ExampleStore_AppendMessage() {
	ctx := context.Background()
	m, agents, id := example(ctx)
	defer func() { _ = m.Close(ctx) }()
	hello := agent.NewMessage(agent.User, "Where is my parcel?")
	for range 2 { // stored once, however often it is appended
		if _, err := agents.AppendMessage(ctx, id, hello); err != nil {
			fmt.Println(err)
		}
	}
	title, err := agents.AutoTitle(ctx, id)
	c, err2 := agents.LoadConversation(ctx, id, agent.Page{Last: true, Limit: 10})
	fmt.Println(title, c.Count, err, err2)
	// Output: Where is my parcel? 1 <nil> <nil>
}

func ExampleStore_Restore() {
	ctx := context.Background()
	m, agents, id := example(ctx)
	defer func() { _ = m.Close(ctx) }()
	before, err := agents.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "support", Name: "before the mistake"})
	fmt.Println(before.Name, err)
	_, err = agents.DeleteConversation(ctx, id)
	fmt.Println(err)
	undo, err := agents.Restore(ctx, "support", before.ID, agent.RestoreOptions{})
	fmt.Println(undo.Kind, err)
	a, err := agents.Load(ctx, "support")
	fmt.Println(len(a.Active), err)
	// Output:
	// before the mistake <nil>
	// <nil>
	// recovery <nil>
	// 1 <nil>
}

func ExampleStore_Diff() {
	ctx := context.Background()
	m, agents, _ := example(ctx)
	defer func() { _ = m.Close(ctx) }()
	before, err := agents.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "support"})
	fmt.Println(err)
	a, err := agents.Load(ctx, "support")
	if err == nil {
		a.SystemPrompt = "Be brief."
		a.Set("orders", 3)
		err = agents.Save(ctx, a)
	}
	fmt.Println(err)
	all, err := agents.Diff(ctx, "support", before.ID, "") // to the present
	fmt.Print(all)
	text, err2 := json.Marshal(all[1])
	fmt.Println(string(text), err, err2)
	// Output:
	// <nil>
	// <nil>
	// ~ system_prompt: "" -> "Be brief."
	// + custom orders: 3
	// {"change":"added","what":"custom","name":"orders","after":3} <nil> <nil>
}

func ExampleRun_Step() {
	ctx := context.Background()
	m, agents, id := example(ctx)
	defer func() { _ = m.Close(ctx) }()
	run, err := agents.Run(ctx, "support", agent.RunOptions{Strategy: agent.AfterModelResponse(), Keep: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := run.Step(ctx, agent.ModelDone, func(tx *manager.Tx) error {
		_, err := agents.In(tx).AppendMessage(ctx, id, agent.NewMessage(agent.Assistant, "It is on its way."))
		return err // the message, the count and the checkpoint are committed together
	})
	fmt.Println(n, err)
	c, err := agents.LoadCheckpoint(ctx, "support", "latest")
	fmt.Println(c.Iteration, len(c.Conversations[0].Messages), err, run.Close(ctx))
	// Output:
	// 1 <nil>
	// 1 1 <nil> <nil>
}

func ExampleStore_Tools() {
	ctx := context.Background()
	m, agents, _ := example(ctx)
	defer func() { _ = m.Close(ctx) }()
	tools := agents.Tools("support", "conversation_delete") // of the destructive ones, this alone
	list, err := agent.ToolNamed(tools, "agent_list")
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := list.Call(ctx, json.RawMessage(`{}`))
	fmt.Println(len(tools), string(out), err)
	// Output: 11 {"agents":[{"id":"support","name":"Support","type":"gpt-5"}]} <nil>
}

func ExampleTitle() {
	fmt.Println(agent.Title("  What\n is this? "))
	// Output: What is this?
}

func ExampleEveryN() {
	every, err := agent.EveryN(3)
	d := agent.NewDecider(every)
	for i := range 7 {
		if d.Wants(agent.Step{Iteration: i, Event: agent.Iteration}) {
			fmt.Println("checkpoint at", i)
		}
	}
	fmt.Println(err)
	// Output:
	// checkpoint at 3
	// checkpoint at 6
	// <nil>
}
