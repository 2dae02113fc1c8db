package learning_test

import (
	"context"
	"fmt"

	"github.com/sagestore/sagestore/learning"
	"github.com/sagestore/sagestore/manager"
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

	l := learning.New(m)
	for range 2 {
		err := l.Patterns.Add(ctx, learning.Record{User: "user-42", Kind: "style", Text: "prefers short answers", Score: 0.9})
		if err != nil {
			fmt.Println(err)
		}
	}
	text, err := l.Digest(ctx, "user-42", 50)
	fmt.Print(text)
	fmt.Println(err)
	// Output:
	// Patterns:
	// - [style] prefers short answers (seen 2 times)
	// <nil>
}
