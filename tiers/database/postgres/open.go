package postgres

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// maxValue is what a value may have at most, in bytes: the server takes no more than
// 1 GiB in one message, twice over.
const maxValue = 256 << 20

// Tier is an open store. It is safe for concurrent use.
type Tier struct {
	config Config
	schema string
	place  string      // for messages
	clock  tiers.Clock // nil: the server's
	log    *slog.Logger

	read      *pgxpool.Pool
	write     *pgxpool.Pool // see writeConns
	snapshots *pgxpool.Pool
	writer    *writer
	locks     *locks
	queries   sync.Map // statements with the name of the schema put in

	hits, misses, failures, expired atomic.Int64
	waiting                         waiting

	calls   sync.WaitGroup
	mu      sync.RWMutex
	closing bool
	live    map[*snapshot]struct{}
	stop    context.CancelFunc // of all that is under way when the tier closes
	life    context.Context    //nolint:containedctx // the tier's own
	done    chan struct{}
}

// Open opens the store, and makes its tables when they are not there. It refuses,
// before anything is changed, a server that is too old or read-only, a schema that
// another application uses, and tables that a newer version has made
// (tiers.ErrSchema).
func Open(ctx context.Context, c Config) (*Tier, error) {
	t, err := open(ctx, c)
	if err != nil {
		return nil, tiers.Fail("open", tierName, tiers.Key{}, err)
	}
	return t, nil
}

func open(ctx context.Context, c Config) (_ *Tier, err error) {
	if err := engine.Over(ctx); err != nil {
		return nil, err
	}
	if c, err = c.filled(); err != nil {
		return nil, err
	}
	p, err := c.parse()
	if err != nil {
		return nil, err
	}
	t := &Tier{
		config: c, schema: c.Schema, place: placeOf(p.ConnConfig), log: c.Log,
		live: map[*snapshot]struct{}{}, done: make(chan struct{}),
	}
	if c.Clock != nil && c.Clock != tiers.SystemClock() {
		t.clock = c.Clock
	}
	// The pools end at Close, not with the context of Open.
	t.life, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			t.stop()
			t.closePools()
		}
	}()
	if t.write, err = one(t.life, p, writeConns); err != nil { //nolint:contextcheck // the tier's own life bounds it
		return nil, err
	}
	if t.read, err = pgxpool.NewWithConfig(t.life, p); err != nil { //nolint:contextcheck // the tier's own life bounds it
		return nil, err
	}
	if t.snapshots, err = one(t.life, p, maxSnapshots); err != nil { //nolint:contextcheck // the tier's own life bounds it
		return nil, err
	}
	s, err := lookAt(ctx, t.write)
	if err != nil {
		return nil, t.plain(left(ctx, err))
	}
	if err := s.check(t.place); err != nil {
		return nil, err
	}
	if err := t.settle(ctx, t.write); err != nil {
		return nil, t.plain(left(ctx, err))
	}
	t.locks = newLocks(t)
	t.writer = newWriter(t, s.commits == "off")
	go t.writer.loop() //nolint:contextcheck // the tier's own life bounds it
	return t, nil
}

func (t *Tier) closePools() {
	for _, p := range []*pgxpool.Pool{t.read, t.write, t.snapshots} {
		if p != nil {
			p.Close()
		}
	}
}

// sql puts the name of the schema in the place of every "~".
func (t *Tier) sql(query string) string {
	if q, ok := t.queries.Load(query); ok {
		if s, ok := q.(string); ok {
			return s
		}
	}
	q := strings.ReplaceAll(query, "~", t.schema)
	t.queries.Store(query, q)
	return q
}

// enter begins a call, which leave ends, unless the tier is closing.
func (t *Tier) enter(ctx context.Context) error {
	if err := engine.Over(ctx); err != nil {
		return err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closing {
		return tiers.ErrClosed
	}
	t.calls.Add(1)
	return nil
}

func (t *Tier) leave() { t.calls.Done() }

// now answers the time that stands in for the server's, nil for the server's own.
func (t *Tier) now() *int64 {
	if t.clock == nil {
		return nil
	}
	now := t.clock.Now().UnixMicro()
	return &now
}

// Close refuses new calls, does what is in the queue, waits for what is under way and
// closes the connections. When the context ends first it answers its error, and the
// closing goes on. A second Close returns nil.
func (t *Tier) Close(ctx context.Context) error {
	t.mu.Lock()
	first := !t.closing
	t.closing = true
	t.mu.Unlock()
	if !first {
		return nil
	}
	t.writer.queue.close()
	go t.shutDown() //nolint:contextcheck // the tier's own life bounds it
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return t.fail("close", tiers.Key{}, context.Cause(ctx))
	}
}

func (t *Tier) shutDown() {
	defer close(t.done)
	<-t.writer.over
	t.mu.Lock()
	var open []*snapshot
	for s := range t.live {
		open = append(open, s)
	}
	t.mu.Unlock()
	for _, s := range open {
		s.end(tiers.ErrClosed)
	}
	t.calls.Wait()
	t.stop()
	t.locks.close()
	t.closePools()
}

// nowSQL is the time in microseconds, of the parameter of that number unless it is
// NULL, else of the server. It is the same throughout a statement.
func nowSQL(parameter string) string {
	return `coalesce(` + parameter + `::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)`
}
