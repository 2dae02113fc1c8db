package knowledge_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/knowledge"
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

	k := knowledge.New(m)
	c, err := k.Put(ctx, "s-1", "some text", knowledge.Unknown)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err = k.Get(ctx, c.ContentHash)
	fmt.Println(c.Content, c.AccessCount, err)

	for range 2 { // counted once
		err := k.AddUsage(ctx, knowledge.Usage{ID: "r-1", Session: "s-1", Model: "m", Input: 120, Output: 40})
		if err != nil {
			fmt.Println(err)
		}
	}
	sums, err := k.Usage(ctx, knowledge.ByModel, time.Time{}, time.Time{})
	fmt.Println(sums["m"].Total(), err)
	// Output:
	// some text 2 <nil>
	// 160 <nil>
}
