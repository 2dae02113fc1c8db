package manager

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// Names of what a store remembers about its categories; the category follows.
const (
	factEpoch   = "epoch"
	factHome    = "home/"    // the tier that holds it
	factTTL     = "ttl/"     // see ttlFact
	factSchema  = "schema/"  // the highest number of its records
	factSession = "session/" // its entries end with their session; the tier
	factPolicy  = "policy/"  // what a library brought
	factMoving  = "moving/"  // a migration that is not over; see move
)

// ttlFact is the TTL that a category's newest records have, and the one that
// older ones were saved with.
type ttlFact struct {
	TTL     string    `json:"ttl"`
	Was     string    `json:"was,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// facts is a copy of what the store remembers, so that nothing is written that
// is there already.
type facts struct {
	system tiers.System
	clock  tiers.Clock

	mu    sync.Mutex
	known map[string]string
}

func readFacts(ctx context.Context, system tiers.System, clock tiers.Clock) (*facts, error) {
	f := &facts{system: system, clock: clock, known: make(map[string]string)}
	return f, f.refresh(ctx)
}

// refresh reads everything anew.
func (f *facts) refresh(ctx context.Context) error {
	known := make(map[string]string)
	for fact, err := range f.system.Facts(ctx, "") {
		if err != nil {
			return err
		}
		known[fact.Name] = string(fact.Value)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = known
	return nil
}

func (f *facts) get(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[name]
}

// under answers the facts whose names begin with the prefix, which is cut off.
func (f *facts) under(prefix string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]string)
	for name, value := range f.known {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			out[rest] = value
		}
	}
	return out
}

// set stores a fact that differs from what is known.
func (f *facts) set(ctx context.Context, name, value string) error {
	if f.get(name) == value {
		return nil
	}
	if _, err := f.system.SetFact(ctx, name, []byte(value), false); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[name] = value
	return nil
}

func (f *facts) home(category string) string { return f.get(factHome + category) }

func (f *facts) schema(category string) uint32 {
	n, _ := strconv.ParseUint(f.get(factSchema+category), 10, 32) // absent is 0
	return uint32(n)
}

// policy answers what a library brought for the category, or nil.
func (f *facts) policy(category string) *config.Category {
	text := f.get(factPolicy + category)
	if text == "" {
		return nil
	}
	var c config.Category
	if json.Unmarshal([]byte(text), &c) != nil {
		return nil // of a newer version; as if it were not there
	}
	return &c
}

func (f *facts) setPolicy(ctx context.Context, category string, c config.Category) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return f.set(ctx, factPolicy+category, string(text))
}

// noteTTL remembers the TTL of a category, and the one before.
func (f *facts) noteTTL(ctx context.Context, r *route) error {
	now := ttlText(r.policy)
	known := f.ttl(r.category)
	if known.TTL == now {
		return nil
	}
	next := ttlFact{TTL: now}
	if known.TTL != "" {
		next.Was, next.Changed = known.TTL, tiers.Micro(f.clock.Now())
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return f.set(ctx, factTTL+r.category, string(text))
}

func (f *facts) ttl(category string) (t ttlFact) {
	_ = json.Unmarshal([]byte(f.get(factTTL+category)), &t) // absent is zero
	return t
}

func ttlText(p config.Policy) string {
	switch {
	case p.Session:
		return string(config.UntilSessionEnds)
	case p.TTL == 0:
		return string(config.Never)
	}
	return p.TTL.String()
}
