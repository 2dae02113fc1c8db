package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

func TestErrorsOfItemsAreJoinedAndOthersEndTheBatch(t *testing.T) {
	broken, missing := errors.New("broken"), tiers.ErrNotFound
	for _, c := range []struct {
		why   string
		ends  func(error) bool
		fails map[int]error
		calls int
		items int // errors of items
		want  error
	}{
		{"all are well", nil, nil, 3, 0, nil},
		{"some fail", nil, map[int]error{0: missing, 2: missing}, 3, 2, missing},
		{"one ends it", func(err error) bool { return errors.Is(err, broken) }, map[int]error{0: missing, 1: broken}, 2, 0, broken},
		{"none that does", func(err error) bool { return errors.Is(err, broken) }, map[int]error{1: missing}, 3, 1, missing},
	} {
		calls := 0
		err := engine.Each(3, c.ends, func(i int) error { calls++; return c.fails[i] })
		items, _ := errors.AsType[engine.ItemErrors](err)
		if calls != c.calls || len(items) != c.items || !errors.Is(err, c.want) {
			t.Errorf("%s: %d calls, %d errors of items, %v", c.why, calls, len(items), err)
		}
	}
}

func TestConditionsAreNoneOrOneForEach(t *testing.T) {
	for _, c := range []struct {
		items, conds int
		fine         bool
	}{{3, 0, true}, {3, 3, true}, {0, 0, true}, {3, 2, false}, {0, 1, false}} {
		if err := engine.Aligned(c.items, c.conds); (err == nil) != c.fine {
			t.Errorf("%d conditions for %d items: %v", c.conds, c.items, err)
		}
	}
}

func TestWhyAContextEndedIsTold(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := engine.Over(ctx); err != nil {
		t.Errorf("it goes on: %v", err)
	}
	cancel(why)
	if err := engine.Over(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if err := engine.Unknown(why); !errors.Is(err, why) || !errors.Is(err, tiers.ErrCommitUnknown) || engine.IsAnswer(err) {
		t.Errorf("got %v", err)
	}
}
