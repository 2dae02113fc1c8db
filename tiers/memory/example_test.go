package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
)

func Example() {
	ctx := context.Background()
	m, err := memory.New(memory.Options{Budget: 64 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = m.Close(ctx) }()

	task := tiers.Key{Category: "session.context", Name: "s-1/task"}
	draft := tiers.Key{Category: "session.context", Name: "s-1/draft"}
	if _, err := m.Save(ctx, tiers.Record{Key: task, Value: []byte("summarise"), Codec: "raw"}, tiers.Cond{}); err != nil {
		fmt.Println(err)
	}
	if _, err := m.Save(ctx, tiers.Record{Key: draft, Value: []byte("In short"), Codec: "raw", TTL: time.Hour}, tiers.Cond{}); err != nil {
		fmt.Println(err)
	}

	r, err := m.Load(ctx, task)
	fmt.Printf("%s %v\n", r.Value, err)
	ok, err := m.Exists(ctx, draft)
	fmt.Println(ok, err)
	existed, err := m.Delete(ctx, draft, tiers.Cond{})
	fmt.Println(existed, err)
	_, err = m.Load(ctx, draft)
	fmt.Println(errors.Is(err, tiers.ErrNotFound))
	// Output:
	// summarise <nil>
	// true <nil>
	// true <nil>
	// true
}

func ExampleOpen() {
	ctx := context.Background()
	m, err := memory.Open(ctx, memory.Config{Options: memory.Options{Overflow: memory.OverflowNone, Budget: 10}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = m.Close(ctx) }()
	for _, name := range []string{"a", "b"} {
		k := tiers.Key{Category: "scratch", Name: name}
		_, err := m.Save(ctx, tiers.Record{Key: k, Value: []byte("12345678")}, tiers.Cond{})
		fmt.Println(errors.Is(err, tiers.ErrFull))
	}
	// Output:
	// false
	// true
}

func ExampleDriver() {
	d := memory.Driver()
	t, err := d.Open(context.Background(), tiers.Env{Name: "memory", Clock: tiers.SystemClock()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = t.Close(context.Background()) }()
	_, ok := tiers.As[tiers.System](t)
	fmt.Println(tiers.Describe(t).Driver, ok)
	// Output: memory true
}
