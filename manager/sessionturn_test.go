package manager_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// TestDecisionAboutASessionIsNotOvertaken lets another process decide anew between what a
// late one has found and what it does about it.
func TestDecisionAboutASessionIsNotOvertaken(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	late := value[*manager.Manager](t)(manager.Open(ctx, sharedConfig(dir), all()))
	defer closeNow(t, late)
	other := value[*manager.Manager](t)(manager.Open(ctx, sharedConfig(dir), all()))
	defer closeNow(t, other)

	yes := func(context.Context) (bool, error) { return true, nil }
	for _, m := range []*manager.Manager{other, late} { // another process, and another call of this one
		must(t, late.Save(ctx, "app.parts", "s/old", "v"))
		reopened := make(chan error, 1)
		must(t, late.EndSession(ctx, "s", manager.OnlyIf(func(ctx context.Context) (bool, error) {
			go func() { reopened <- m.ReopenSession(ctx, "s", manager.OnlyIf(yes)) }()
			select {
			case err := <-reopened:
				t.Errorf("it was reopened meanwhile, with %v", err)
				reopened <- err
			case <-time.After(100 * time.Millisecond): // it waits; if it is only slow, the test finds less
			}
			return true, nil
		})))
		must(t, <-reopened)
		must(t, m.Save(ctx, "app.parts", "s/new", "v"))
		var v string
		wantError(t, m.Load(ctx, "app.parts", "s/old", &v), tiers.ErrNotFound, "what the ended one held")
		must(t, m.Load(ctx, "app.parts", "s/new", &v))

		no := errors.New("no")
		for _, still := range []func(context.Context) (bool, error){
			func(context.Context) (bool, error) { return false, nil },
			func(context.Context) (bool, error) { return false, no },
		} {
			if err := m.EndSession(ctx, "s", manager.OnlyIf(still)); err != nil && !errors.Is(err, no) {
				t.Error(err)
			}
			must(t, m.Load(ctx, "app.parts", "s/new", &v))
		}
		must(t, m.EndSession(ctx, "s"))
		must(t, m.ReopenSession(ctx, "s", manager.OnlyIf(func(context.Context) (bool, error) { return false, nil })))
		wantError(t, m.Save(ctx, "app.parts", "s/late", "v"), tiers.ErrSessionEnded, "a save into what was not reopened")
		must(t, m.ReopenSession(ctx, "s", manager.OnlyIf(yes)))
		soon(t, "this process learns of the reopening", func() bool { return late.Save(ctx, "app.parts", "s/more", "v") == nil })
		must(t, late.EndSession(ctx, "s", nil)) // no option
		must(t, late.ReopenSession(ctx, "s"))
	}
}
