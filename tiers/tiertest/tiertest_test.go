package tiertest

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/tiers"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Flawed tiers fail on purpose: nothing to keep, and little to shrink.
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "200ms"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestHonestTierPasses(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // the suite leaves nothing behind
	Run(t, honest())
}

func TestHonestTierPassesOutsideOfSubtests(t *testing.T) {
	if err := Check(honest(), t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestUnflawedWrapperPasses shows that what is caught below is the flaw.
func TestUnflawedWrapperPasses(t *testing.T) {
	if err := Check(withFlaw(func(*flawed) {}), t.TempDir()); err != nil {
		t.Error(err)
	}
}

func withFlaw(flaw func(f *flawed)) Config {
	var all stores
	c := honest()
	c.Open = func(_ context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		f := &flawed{reference: &reference{store: all.open(dir), clock: clock}}
		flaw(f)
		return f, nil
	}
	return c
}

// TestFlawedTierIsCaught breaks the contract in many ways; each has to be
// reported by the rule that is about it.
func TestFlawedTierIsCaught(t *testing.T) {
	t.Parallel()
	for _, fl := range flaws() {
		t.Run(fl.name, func(t *testing.T) {
			t.Parallel()
			l := limits{rule: 3 * time.Second, grace: 200 * time.Millisecond}
			switch fl.rule {
			case "publishing/nothing is visible before publish", "publishing/who reads a prepared key waits",
				"publishing/a read that is as it was holds until the end":
				l = limits{moment: 20 * time.Second} // over as soon as the call is, which should wait
			}
			err := check(withFlaw(fl.make), t.TempDir(), groups(), l,
				func(rule string) bool { return rule == fl.rule })
			var fault *RuleError
			if !errors.As(err, &fault) {
				t.Fatalf("%s is not reported: %v", fl.rule, err)
			}
			if fault.Rule != fl.rule || fault.Why == "" {
				t.Errorf("reported as %q because of %q, want %q", fault.Rule, fault.Why, fl.rule)
			}
			t.Log(err)
		})
	}
}

// TestEveryRuleCatchesSomething keeps the suite free of rules that can't fail.
func TestEveryRuleCatchesSomething(t *testing.T) {
	caught := map[string]bool{}
	for _, fl := range flaws() {
		caught[fl.rule] = true
	}
	// These are shown by the tests below, or ask for a capability that the
	// reference has in another form.
	for _, rule := range []string{
		"capabilities/what is required is there",
		"batches/a batch that is not atomic does what it can",
		"apply/an empty apply does nothing",
	} {
		caught[rule] = true
	}
	for _, g := range groups() {
		for _, r := range g.rules {
			if !caught[g.name+"/"+r.name] {
				t.Errorf("no flaw breaks the rule %q", g.name+"/"+r.name)
			}
			if r.why == "" || strings.ContainsAny(r.name, "/") {
				t.Errorf("the rule %q needs a reason, and a name without a slash", r.name)
			}
		}
	}
}

// hidden answers for no capability at all.
type hidden struct{ tiers.Tier }

func (hidden) As(any) bool { return false }

func TestLostCapabilityIsCaught(t *testing.T) {
	c := honest()
	open := c.Open
	c.Open = func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		h, err := open(ctx, dir, clock)
		return hidden{h}, err
	}
	err := Check(c, t.TempDir())
	var fault *RuleError
	if !errors.As(err, &fault) || fault.Rule != "capabilities/what is required is there" || len(fault.Faults) != len(c.Require) {
		t.Errorf("hiding %d capabilities is reported as %v", len(c.Require), err)
	}
	c.Require = nil
	if err := Check(c, t.TempDir()); err != nil {
		t.Errorf("a tier with the required methods alone fails: %v", err)
	}
}

// loose is a batcher that is not atomic.
type loose struct{ *flawed }

func (loose) Atomic() bool { return false }

func TestLooseBatches(t *testing.T) {
	const rule = "batches/a batch that is not atomic does what it can"
	for name, honestly := range map[string]bool{"does what it can": true, "gives up": false} {
		t.Run(name, func(t *testing.T) {
			var all stores
			c := honest()
			c.Require = nil
			c.Open = func(_ context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
				f := &flawed{reference: &reference{store: all.open(dir), clock: clock}}
				if honestly {
					f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
						return tiers.SaveMany(ctx, hidden{f.reference}, rs, cs)
					}
					f.deleteMany = func(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
						return tiers.DeleteMany(ctx, hidden{f.reference}, ks, cs)
					}
				}
				return loose{f}, nil
			}
			err := check(c, t.TempDir(), groups(), limits{}, func(name string) bool { return honestly || name == rule })
			if honestly != (err == nil) {
				t.Errorf("the suite answers %v", err)
			}
		})
	}
}

func TestFailedOpenIsAFault(t *testing.T) {
	c := honest()
	c.Open = func(context.Context, string, tiers.Clock) (tiers.Tier, error) { return nil, tiers.ErrUnavailable }
	err := Check(c, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), tiers.ErrUnavailable.Error()) {
		t.Errorf("the suite answers %v", err)
	}
}

func TestFailsFindsEveryTypedError(t *testing.T) {
	k := func(name string) tiers.Key { return tiers.Key{Category: category, Name: name} }
	err := errors.Join(
		tiers.Fail("save", "t", k("a"), tiers.ErrExists), nil,
		errors.Join(tiers.Fail("save", "t", k("b"), tiers.ErrConflict)),
		tiers.Hint(tiers.Fail("save", "t", k("c"), tiers.ErrKey), "hint"),
	)
	var names []string
	for name := range fails(err) {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("found %q", names)
	}
}

func BenchmarkReference(b *testing.B) { Bench(b, honest()) }
