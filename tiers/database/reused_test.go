package database

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// queuedJobs is how much waits for the writer.
func queuedJobs(tier *Tier) int {
	tier.writer.mu.Lock()
	defer tier.writer.mu.Unlock()
	return len(tier.writer.queue)
}

// leaveAmid makes a call and leaves while its group is at work, changes what was given to
// the call, and waits until the group is done.
func leaveAmid(t *testing.T, tier *Tier, path string, call func(ctx context.Context) error, change func()) {
	t.Helper()
	give := holdTurn(t, path)
	defer give()
	wait := func(n int) {
		for queuedJobs(tier) < n {
			time.Sleep(time.Millisecond)
		}
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	first, left := make(chan error, 1), make(chan error, 1)
	go func() {
		first <- tier.writer.do(t.Context(), &job{run: func(*tx) error {
			close(begun)
			<-goOn
			return nil
		}})
	}()
	wait(1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() { left <- call(ctx) }()
	wait(2)
	give()
	<-begun
	leave()
	if err := <-left; !errors.Is(err, tiers.ErrCommitUnknown) {
		t.Errorf("got %v, want %v", err, tiers.ErrCommitUnknown)
	}
	change()
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestWhoeverHasLeftMayUseItsSlicesAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	saved := func(name string) string {
		r, err := tier.Load(t.Context(), key(name))
		if errors.Is(err, tiers.ErrNotFound) {
			return "nothing"
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Value)
	}
	waits := func(name string) string {
		row, err := tier.Pending(t.Context(), "file", key(name))
		if errors.Is(err, tiers.ErrNotFound) {
			return "nothing"
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(row.Value)
	}
	ks := []tiers.Key{key("deleted")}
	cs := []tiers.Cond{tiers.If(1)}
	var rows []tiers.Row
	for _, name := range []string{"deleted", "kept", "waits", "done"} {
		if _, err := tier.Save(t.Context(), plainJSON(name, `1`), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		out, err := tier.Append(t.Context(), []tiers.Row{{Tier: "file", Record: plainJSON(name, `1`)}}, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, out...)
	}
	done := rows[3:]
	allow := func() { cs[0] = tiers.Cond{} }
	for _, c := range []struct {
		why    string
		call   func(ctx context.Context) error
		change func()
		is     func(name string) string
		want   map[string]string
	}{
		{"keys", func(ctx context.Context) error { return second(tier.DeleteMany(ctx, ks, nil)) }, func() { ks[0] = key("kept") }, saved, map[string]string{"deleted": "nothing", "kept": "1"}},
		{"conditions of a delete", func(ctx context.Context) error { return second(tier.DeleteMany(ctx, []tiers.Key{key("kept")}, cs)) }, allow, saved, map[string]string{"kept": "1"}},
		{"conditions of a save", func(ctx context.Context) error {
			return second(tier.SaveMany(ctx, []tiers.Record{plainJSON("kept", `2`)}, cs))
		}, allow, saved, map[string]string{"kept": "1"}},
		{"conditions of what is applied", func(ctx context.Context) error {
			r := plainJSON("kept", `2`)
			r.Version = 1 << 59
			return tier.Apply(ctx, []tiers.Record{r}, cs)
		}, allow, saved, map[string]string{"kept": "1"}},
		{"conditions of rows", func(ctx context.Context) error {
			return second(tier.Append(ctx, []tiers.Row{{Tier: "file", Record: plainJSON("waits", `2`)}}, cs, 0))
		}, allow, waits, map[string]string{"waits": "1"}},
		{"rows", func(ctx context.Context) error { return tier.Done(ctx, done) }, func() { done[0] = rows[2] }, waits, map[string]string{"done": "nothing", "waits": "1"}},
	} {
		cs[0] = tiers.If(1)
		leaveAmid(t, tier, path, c.call, c.change)
		for name, want := range c.want {
			if got := c.is(name); got != want {
				t.Errorf("%s are used again: of %s there is %s, want %s", c.why, name, got, want)
			}
		}
	}
}
