package session_test

import (
	"context"
	"fmt"
	"os"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers/embedded"
)

func Example() {
	ctx := context.Background()
	m, err := manager.OpenMemory(ctx, embedded.Tiers())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = m.Close(ctx) }()

	sessions := session.New(m)
	err = sessions.Start(ctx, session.State{SessionID: "s-1", UserID: "user-42", Context: map[string]any{"goal": "find it"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt, err := session.NewEvent("s-1", "turn-1", session.UserPrompt{Prompt: "where is it?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // once, however often it is appended
		if _, err := sessions.Append(ctx, "s-1", prompt); err != nil {
			fmt.Println(err)
		}
	}
	if err := sessions.End(ctx, "s-1", session.Stop{Success: true, Result: "there"}); err != nil {
		fmt.Println(err)
	}
	for e, err := range sessions.Events(ctx, "s-1", 0) {
		fmt.Println(e.Seq, e.Method, err)
	}
	st, err := sessions.Load(ctx, "s-1")
	fmt.Println(st.UserID, st.Expired, err)
	// Output:
	// 1 user.prompt.submit <nil>
	// 2 session.stop <nil>
	// user-42 [context] <nil>
}

func ExampleAs() {
	e := session.Event{Method: "user.prompt.submit", Params: []byte(`{"prompt":"hello","later":1}`)}
	prompt, err := session.As[session.UserPrompt](e)
	fmt.Println(prompt.Prompt, err)
	// Output: hello <nil>
}

func ExampleAppendLines() {
	f, err := os.CreateTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	_, _ = f.WriteString(`{"jsonrpc":"2.0","method":"cut`)
	if err := session.AppendLines(f, session.Event{Session: "s-1", Method: "app.step"}); err != nil {
		fmt.Println(err)
	}
	_, _ = f.Seek(0, 0)
	for line, err := range session.Lines(f) {
		fmt.Println(line.Number, line.Event.Method, err != nil)
	}
	// Output:
	// 1  true
	// 2 app.step false
}
