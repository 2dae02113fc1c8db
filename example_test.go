package sagestore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

type Preferences struct {
	Theme string `json:"theme"`
	Font  int    `json:"font"`
}

// A store in memory needs neither a file nor a server. OpenDir keeps the same
// categories below a directory, and Open takes a configuration.
func Example() {
	ctx := context.Background()
	m, err := manager.OpenMemory(ctx, embedded.Tiers())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = m.Close(ctx) }()

	prefs := manager.For[Preferences](m, "session.preferences")
	if err := prefs.Save(ctx, "user-42", Preferences{Theme: "dark", Font: 12}); err != nil {
		fmt.Println(err)
	}
	p, err := prefs.Load(ctx, "user-42")
	fmt.Println(p.Theme, p.Font, err)

	_, err = prefs.Load(ctx, "user-43")
	fmt.Println(errors.Is(err, tiers.ErrNotFound))

	p, err = prefs.Modify(ctx, "user-42", func(p *Preferences, _ bool) error {
		p.Font += 2
		return nil
	})
	fmt.Println(p.Font, err)

	// Entries of a session category go when their session ends.
	drafts := manager.For[string](m, "session.context")
	if err := drafts.Save(ctx, manager.Key("s-1", "draft"), "Dear all,", manager.TTL(time.Hour)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(m.EndSession(ctx, "s-1"))
	ok, err := drafts.Exists(ctx, manager.Key("s-1", "draft"))
	fmt.Println(ok, err)

	// Output:
	// dark 12 <nil>
	// true
	// 14 <nil>
	// <nil>
	// false <nil>
}
