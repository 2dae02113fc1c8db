package crashtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// ledger is what a parent knows about the keys of its children.
type ledger struct {
	base    int // of the running round; its operations are base+1, base+2, ...
	callers int
	keys    map[string]*account
}

// account is what is known about one key.
type account struct {
	n       int           // the last operation that was acknowledged, or seen after a crash
	version tiers.Version // the highest seen
	exact   bool          // version is that of operation n
	tried   int           // the last operation that got an answer of any kind
	unknown []int         // operations after n whose outcome was said to be unknown
}

func newLedger(callers int) *ledger { return &ledger{callers: callers, keys: map[string]*account{}} }

func (l *ledger) of(key string) *account {
	a := l.keys[key]
	if a == nil {
		a = &account{}
		l.keys[key] = a
	}
	return a
}

// ack notes what a child reported as acknowledged.
func (l *ledger) ack(e Event) error {
	a := l.of(e.Key)
	if e.N <= a.n {
		return fmt.Errorf("key %q: operation %d was acknowledged after operation %d", e.Key, e.N, a.n)
	}
	a.n, a.tried, a.exact, a.unknown = e.N, e.N, e.Version != 0, nil
	if e.Version == 0 {
		return nil
	}
	if e.Version <= a.version {
		return fmt.Errorf("key %q: operation %d got version %d, an earlier one has %d", e.Key, e.N, e.Version, a.version)
	}
	a.version = e.Version
	return nil
}

// fail notes what a child reported as failed. Only an outcome that was said to be
// unknown may show up later.
func (l *ledger) fail(e Event) {
	a := l.of(e.Key)
	a.tried = max(a.tried, e.N)
	if e.Class == Unknown {
		a.unknown = append(a.unknown, e.N)
	}
}

// check compares what the tier holds with what was acknowledged. One operation
// a key may have been under way: its effect may be there or not, from now on
// for good.
func (l *ledger) check(ctx context.Context, t tiers.Tier) error {
	var errs []error
	for c := range l.callers {
		made := map[int]bool{}
		for i := range keysOf {
			n, err := l.checkKey(ctx, t, keyOf(c, i))
			if err != nil {
				errs = append(errs, err)
			}
			made[n] = true
		}
		b, ok := tiers.As[tiers.Batcher](t)
		if ok && b.Atomic() && c == 0 && l.callers > 1 && len(made) > 1 && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("a batch is torn: its keys come from operations %v", made))
		}
		if committer, system, ok := decides(t, c, l.callers); ok && len(errs) == 0 {
			errs = append(errs, checkCommit(ctx, committer, system, c, made))
		}
	}
	return errors.Join(errs...)
}

func (l *ledger) checkKey(ctx context.Context, t tiers.Tier, k tiers.Key) (n int, err error) {
	a := l.of(k.Name)
	// What may have happened beyond the last acknowledged operation.
	open := append(slices.Clone(a.unknown), max(a.n, a.tried, l.base)+1)
	defer func() { a.unknown = nil }()

	r, err := t.Load(ctx, k)
	if errors.Is(err, tiers.ErrNotFound) {
		if a.n == 0 || deletes(a.n) {
			return 0, nil
		}
		for _, m := range open {
			if deletes(m) {
				a.n, a.exact = m, false
				return 0, nil
			}
		}
		return 0, fmt.Errorf("key %q is gone: the save of operation %d was acknowledged", k.Name, a.n)
	}
	if err != nil {
		return 0, fmt.Errorf("key %q: %w", k.Name, err)
	}
	if n, err = decode(k.Name, r.Value); err != nil {
		return n, fmt.Errorf("key %q is torn: %w", k.Name, err)
	}
	switch {
	case n == a.n && a.exact && r.Version != a.version:
		return n, fmt.Errorf("key %q: operation %d was acknowledged with version %d and has %d", k.Name, n, a.version, r.Version)
	case n == a.n:
	case !slices.Contains(open, n):
		return n, fmt.Errorf("key %q holds operation %d; %d was acknowledged, %v may have been under way", k.Name, n, a.n, open)
	case r.Version <= a.version:
		return n, fmt.Errorf("key %q: operation %d has version %d, an earlier one has %d", k.Name, n, r.Version, a.version)
	}
	a.n, a.version, a.exact = n, r.Version, true
	return n, nil
}
