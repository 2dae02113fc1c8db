package memory

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"os"
	"reflect"
	"sync/atomic"

	"github.com/sagestore/sagestore/internal/home"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory/internal/spill"
)

// What Options.Overflow may be.
const (
	OverflowSpill = "spill" // to a private file
	OverflowNone  = "none"  // Save answers tiers.ErrFull
)

// Defaults of [Options].
const (
	DefaultBudget     = 256 << 20
	DefaultSpillLimit = 4 << 30
)

// Options are the settings of the tier. The zero value is useful.
type Options struct {
	Budget     int64  // bytes of keys and values in memory; 0: 256 MiB
	Overflow   string // "spill" or "none"; empty: "spill"
	SpillLimit int64  // most bytes of the spill file; 0: 4 GiB
	SpillDir   string // where the spill file is made, "~" is the home directory; empty: the data directory, or that for temporary files
}

// Config is what [Open] takes.
type Config struct {
	Options
	Name  string       // of the tier in errors; empty: memory
	Clock tiers.Clock  // nil: the system's
	Log   *slog.Logger // nil: none
}

// Tier is the memory tier. All methods are safe for concurrent use.
type Tier struct {
	name   string
	opts   Options
	clock  tiers.Clock
	log    *slog.Logger
	seed   maphash.Seed
	mark   atomic.Uint64 // the highest version issued or applied
	ids    atomic.Uint64
	closed atomic.Bool

	shards [shardCount]shard
	marked [shardCount / 64]atomic.Uint64 // shards with a changed list
	room   room
	order  order
	spill  *spill.File[*entry] // nil: overflow none
	keeper keeper
	counts counters
	system *system
}

var (
	_ tiers.Tier      = (*Tier)(nil)
	_ tiers.Applier   = (*Tier)(nil)
	_ tiers.Batcher   = (*Tier)(nil)
	_ tiers.Publisher = (*Tier)(nil)
	_ tiers.Lender    = (*Tier)(nil)
	_ tiers.Exister   = (*Tier)(nil)
	_ tiers.Toucher   = (*Tier)(nil)
	_ tiers.Sweeper   = (*Tier)(nil)
	_ tiers.Pinger    = (*Tier)(nil)
	_ tiers.Statser   = (*Tier)(nil)
	_ tiers.Counter   = (*Tier)(nil)
	_ tiers.Describer = (*Tier)(nil)
	_ tiers.Diagnoser = (*Tier)(nil)
)

// New makes a tier with the system's clock.
func New(o Options) (*Tier, error) { return Open(context.Background(), Config{Options: o}) }

// Open makes a tier. It starts no goroutine and touches no disk before the tier
// is half full. The caller closes it.
func Open(ctx context.Context, c Config) (*Tier, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o, err := c.complete()
	if err != nil {
		return nil, err
	}
	t := &Tier{name: c.Name, opts: o, clock: c.Clock, log: c.Log, seed: maphash.MakeSeed()}
	if t.name == "" {
		t.name = "memory"
	}
	if t.clock == nil {
		t.clock = tiers.SystemClock()
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.room.budget, t.room.ready = o.Budget, o.Budget
	if o.Overflow == OverflowSpill {
		t.spill = spill.New[*entry](o.SpillDir, o.SpillLimit)
		t.room.ready = o.Budget - max(o.Budget/16, 1)
	}
	t.room.ended = make(chan struct{})
	t.order.spaces = map[tiers.Space]*space{}
	t.keeper.wake = make(chan struct{}, 1)
	t.system = newSystem(t.clock)
	for i := range t.shards {
		t.shards[i].entries = map[uint64]*entry{}
	}
	return t, nil
}

func (o Options) complete() (Options, error) {
	switch {
	case o.Budget < 0:
		return o, fmt.Errorf("memory budget: %d bytes are not possible; 0 is the default of %d", o.Budget, int64(DefaultBudget))
	case o.SpillLimit < 0:
		return o, fmt.Errorf("memory spill limit: %d bytes are not possible; 0 is the default of %d", o.SpillLimit, int64(DefaultSpillLimit))
	}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.SpillLimit == 0 {
		o.SpillLimit = DefaultSpillLimit
	}
	if o.SpillDir == "" {
		o.SpillDir = os.TempDir()
	}
	var err error
	if o.SpillDir, err = home.Expand(o.SpillDir); err != nil {
		return o, fmt.Errorf("memory spill directory: %w", err)
	}
	switch o.Overflow {
	case "":
		o.Overflow = OverflowSpill
	case OverflowSpill, OverflowNone:
	default:
		return o, fmt.Errorf("memory overflow: %q is unknown; use %q or %q", o.Overflow, OverflowSpill, OverflowNone)
	}
	return o, nil
}

// Driver answers the registry's entry for the memory tier.
func Driver() tiers.Driver {
	defaults := func() *Options {
		return &Options{Budget: DefaultBudget, Overflow: OverflowSpill, SpillLimit: DefaultSpillLimit}
	}
	return tiers.Driver{
		Tier:    "memory",
		Name:    "memory",
		Options: defaults(),
		Evictor: newEvictor,
		Open: func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			o := defaults()
			if env.Options != nil {
				if err := env.Options(o); err != nil {
					return nil, err
				}
			}
			if o.SpillDir == "" {
				o.SpillDir = env.Dir
			}
			t, err := Open(ctx, Config{Options: *o, Name: env.Name, Clock: env.Clock, Log: env.Log})
			if err != nil {
				return nil, err
			}
			return t, nil
		},
	}
}

// As answers a capability: tiers.System is a part of the tier, everything else
// is a method of it.
func (t *Tier) As(target any) bool {
	if s, ok := target.(*tiers.System); ok {
		*s = t.system
		return true
	}
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	if self := reflect.ValueOf(t); self.Type().AssignableTo(v.Type().Elem()) {
		v.Elem().Set(self)
		return true
	}
	return false
}

// Describe answers what the tier is.
func (t *Tier) Describe() tiers.Info {
	return tiers.Info{Driver: "memory", Place: "RAM", Scope: tiers.ScopeProcess, MaxValue: t.maxRecord()}
}

// maxRecord is the most bytes that a record may have, key and value.
func (t *Tier) maxRecord() int64 {
	if t.spill == nil {
		return t.room.budget
	}
	return max(t.room.budget-t.room.ready, t.spill.Limit())
}

// Close drops all records, removes the spill file and waits for the tier's
// goroutines, whatever the context says: they end at once.
func (t *Tier) Close(context.Context) error {
	if !t.closed.CompareAndSwap(false, true) {
		<-t.room.ended
		t.keeper.done.Wait()
		return nil
	}
	t.system.close()
	close(t.room.ended)
	for i := range t.shards {
		t.shards[i].close()
	}
	t.keeper.stop()
	if t.spill == nil {
		return nil
	}
	if err := t.spill.Close(); err != nil {
		return tiers.Fail("close", t.name, tiers.Key{}, err)
	}
	return nil
}

// issue answers the next version: the time, or one more than the highest that
// was ever issued, whichever is higher.
func (t *Tier) issue(now int64) uint64 {
	for {
		last := t.mark.Load()
		next := last + 1
		if now > 0 && uint64(now) > next {
			next = uint64(now)
		}
		if t.mark.CompareAndSwap(last, next) {
			return next
		}
	}
}

// passed raises the mark to a version that came from elsewhere.
func (t *Tier) passed(v uint64) {
	for last := t.mark.Load(); last < v; last = t.mark.Load() {
		if t.mark.CompareAndSwap(last, v) {
			return
		}
	}
}

func (t *Tier) fail(op string, k tiers.Key, err error) error { return tiers.Fail(op, t.name, k, err) }

// begin refuses work that should not start.
func (t *Tier) begin(ctx context.Context) error {
	if t.closed.Load() {
		return tiers.ErrClosed
	}
	return ctx.Err()
}

// scramble spreads an id over all bits, one to one, for the policy's sketch.
func scramble(id uint64) uint64 {
	id *= 0x9e3779b97f4a7c15
	id ^= id >> 32
	return id * 0xbf58476d1ce4e5b9
}
