// Package tiertest is the conformance suite of the tier contract: what package
// tiers promises, as cases that any tier, any wrapper of one, and anything else
// that can be seen as a [tiers.Tier] has to pass.
//
// A tier's own test is a few lines:
//
//	func TestConformance(t *testing.T) {
//		tiertest.Run(t, tiertest.Config{
//			Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
//				return mytier.Open(ctx, mytier.Config{Path: dir, Clock: clock})
//			},
//			Durable: true,
//			Require: []tiertest.Capability{tiertest.Batcher, tiertest.Toucher},
//		})
//	}
//
// [Run] has three parts: a case for each rule of the contract; random programs
// that are compared step by step with a plain map, one caller at a time and
// then many at once; and histories of concurrent calls on one key that are
// checked for linearizability. [Check] is the same outside of go test,
// [Bench] measures, and [RunSystem] is the suite of [tiers.System].
//
// Each case gets an empty directory of its own and every call a context with
// a deadline, so that a tier that hangs fails and does not hang the test.
package tiertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Capability names an optional interface of package tiers, or a promise of one.
type Capability string

// The capabilities that [Config.Require] may ask for.
const (
	Applier     Capability = "Applier"
	Batcher     Capability = "Batcher"
	AtomicBatch Capability = "AtomicBatch" // a Batcher whose Atomic answers true
	Exister     Capability = "Exister"
	Toucher     Capability = "Toucher"
	Sweeper     Capability = "Sweeper"
	Pinger      Capability = "Pinger"
	Statser     Capability = "Statser"
	Counter     Capability = "Counter"
	Describer   Capability = "Describer"
	Diagnoser   Capability = "Diagnoser"
	Publisher   Capability = "Publisher"
	Reserver    Capability = "Reserver"
	Snapshotter Capability = "Snapshotter"
	Searcher    Capability = "Searcher"
	TopSearcher Capability = "TopSearcher"
	Waiter      Capability = "Waiter"
)

// Config says what is tested and what it promises.
type Config struct {
	// Open opens the store that dir stands for. The suite gives each test an
	// empty directory of its own; it opens the same one again after Close
	// (Durable), or while a handle is open (Shared). A server-backed tier
	// derives its prefix from dir.
	Open func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error)

	Durable     bool // records survive Close and Open
	Shared      bool // several handles may be open on one dir at once and see each other's acknowledged saves
	ServerClock bool // expiry follows the server's clock and the injected one is ignored: TTLs are short and polled for

	// Require lists capabilities that must be there. Others are tested when
	// they are there and passed over when not.
	Require []Capability

	// MaxValue, in bytes: when positive, a larger value must be
	// tiers.ErrTooLarge with an error that names the limit.
	MaxValue int64
}

// RuleError is a rule that a tier broke.
type RuleError struct {
	Rule   string // such as "expiry/touch does not revive"
	Why    string // what the rule is good for
	Faults []string
}

// Error puts the rule first, then what was seen.
func (f *RuleError) Error() string {
	return fmt.Sprintf("%s: %s\n\twhy: %s", f.Rule, strings.Join(f.Faults, "\n\t"), f.Why)
}

// Run checks every rule, each as a subtest named after it.
func Run(t *testing.T, c Config) {
	t.Helper()
	runGroups(t, c, groups())
}

func runGroups(t *testing.T, c Config, gs []group) {
	t.Helper()
	for _, g := range gs {
		t.Run(g.name, func(t *testing.T) {
			for _, r := range g.rules {
				t.Run(r.name, func(t *testing.T) {
					out := runRule(t.Context(), c, r, g.name+"/"+r.name, t.TempDir(), limits{})
					for _, line := range out.notes {
						t.Log(line)
					}
					if out.fault != nil {
						t.Error(out.fault)
					} else if out.skipped != "" {
						t.Skip(out.skipped)
					}
				})
			}
		})
	}
}

// Check checks every rule and answers the broken ones, joined, each a *[RuleError].
// It makes its directories under dir.
func Check(c Config, dir string) error {
	return check(c, dir, groups(), limits{}, func(string) bool { return true })
}

func check(c Config, dir string, gs []group, l limits, selected func(rule string) bool) error {
	var errs []error
	for i, g := range gs {
		for j, r := range g.rules {
			full := g.name + "/" + r.name
			if !selected(full) {
				continue
			}
			own := filepath.Join(dir, fmt.Sprintf("%02d-%02d", i, j))
			if err := os.MkdirAll(own, 0o700); err != nil {
				return err
			}
			if out := runRule(context.Background(), c, r, full, own, l); out.fault != nil {
				errs = append(errs, out.fault)
			}
		}
	}
	return errors.Join(errs...)
}

// group is the rules about one subject.
type group struct {
	name  string
	rules []rule
}

// rule is one promise and the code that holds a tier to it.
type rule struct {
	name  string
	why   string
	needs []Capability      // passed over when one is not there
	when  func(Config) bool // passed over when not; nil is always
	time  time.Duration     // how long it may take; 0 is the usual
	run   func(t *T)
}

func groups() []group {
	return []group{
		{"capabilities", capabilityRules()},
		{"values", valueRules()},
		{"keys", keyRules()},
		{"versions", versionRules()},
		{"conditions", conditionRules()},
		{"expiry", expiryRules()},
		{"listing", listingRules()},
		{"batches", batchRules()},
		{"apply", applyRules()},
		{"reserving", reserveRules()},
		{"publishing", publishRules()},
		{"snapshots", snapshotRules()},
		{"searching", searchRules()},
		{"sweeping", sweepRules()},
		{"contexts", contextRules()},
		{"lifecycle", lifecycleRules()},
		{"model", modelRules()},
		{"linearizability", linearRules()},
	}
}

func durable(c Config) bool       { return c.Durable }
func shared(c Config) bool        { return c.Shared }
func settableClock(c Config) bool { return !c.ServerClock }
