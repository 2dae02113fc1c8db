package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

// Tier keeps records in a Redis server. It is safe for concurrent use.
type Tier struct {
	name, place   string
	network, addr string
	secure        bool
	options       goredis.Options // for a connection more
	tls           *tls.Config
	indexed       bool
	allowEviction bool
	maxValue      int64
	timeout       time.Duration
	dialTimeout   time.Duration
	names         names
	scripts       scripts
	log           *slog.Logger

	slots  []*slot
	probe  *slot // its own connection, so that a probe waits for nobody
	time   serverTime
	health health
	reads  lane
	writes lane
	count  counters
	high   atomic.Uint64 // the highest version seen
	sweep  sweeper

	workers sync.WaitGroup // lanes and probe
	stop    context.CancelFunc
	ended   chan struct{} // closed when Close begins

	mu     sync.RWMutex // guards closed, and Add of calls against Wait
	closed bool
	calls  sync.WaitGroup
}

type counters struct{ hits, misses, errors, expired atomic.Int64 }

var (
	_ tiers.Tier      = (*Tier)(nil)
	_ tiers.Applier   = (*Tier)(nil)
	_ tiers.Batcher   = (*Tier)(nil)
	_ tiers.Reserver  = (*Tier)(nil)
	_ tiers.Exister   = (*Tier)(nil)
	_ tiers.Toucher   = (*Tier)(nil)
	_ tiers.Sweeper   = (*Tier)(nil)
	_ tiers.Pinger    = (*Tier)(nil)
	_ tiers.Statser   = (*Tier)(nil)
	_ tiers.Counter   = (*Tier)(nil)
	_ tiers.Describer = (*Tier)(nil)
	_ tiers.Diagnoser = (*Tier)(nil)
	_ tiers.Outage    = (*Tier)(nil)
)

// Open connects to a server. One that can't be reached, or that does not accept
// the user and the password, is no error: the tier opens, its calls answer
// tiers.ErrUnavailable, and it goes on trying (see [tiers.Outage]). Settings that
// can't work, and a server that lets the user in but can't be used, for its
// version or its eviction policy, are errors. The caller closes the tier.
func Open(ctx context.Context, c Config) (*Tier, error) {
	c = withDefaults(c)
	t, err := newTier(c) //nolint:contextcheck // what it starts ends with Close
	if err != nil {
		return nil, tiers.Fail("open", c.Name, tiers.Key{}, err)
	}
	if err := t.meet(ctx); err != nil {
		_ = t.Close(context.WithoutCancel(ctx))
		return nil, tiers.Fail("open", c.Name, tiers.Key{}, err)
	}
	return t, nil
}

func newTier(c Config) (*Tier, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	n, err := newNames(c.Prefix, c.Epoch)
	if err != nil {
		return nil, err
	}
	o, err := c.client()
	if err != nil {
		return nil, err
	}
	secure := o.TLSConfig
	o.TLSConfig = nil // the slots do it
	t := &Tier{
		name: c.Name, place: place(o, secure != nil),
		network: o.Network, addr: o.Addr, secure: secure != nil, options: *o, tls: secure,
		indexed: *c.Index, allowEviction: c.AllowEviction, maxValue: c.MaxValue,
		timeout: c.Timeout, dialTimeout: c.DialTimeout,
		names: n, scripts: newScripts(), log: c.Log,
		time: newServerTime(), ended: make(chan struct{}),
	}
	t.health = health{
		clock: c.Clock, log: c.Log, interval: c.ProbeInterval, timeout: c.Timeout, place: t.place,
		kick: make(chan struct{}, 1), changed: make(chan struct{}),
		onAway: func(err error) { t.reads.drop(err); t.writes.drop(err) },
	}
	t.probe = newSlot(*o, secure)
	for range 2 * flights {
		t.slots = append(t.slots, newSlot(*o, secure))
	}
	t.reads.start(t, slices.Clone(t.slots[:flights]))
	t.writes.start(t, slices.Clone(t.slots[flights:]))
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.workers.Go(func() { t.health.probe(ctx, t.contact, t.time.now) })
	return t, nil
}

// meet makes the first contact.
func (t *Tier) meet(ctx context.Context) error {
	err := t.contact(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil, isSetup(err) && !refusesUser(err):
		return err
	}
	if !isReply(err) && !refusedDial(err) {
		if found := t.explain(ctx); found != nil {
			return found
		}
	}
	t.health.open(err)
	return nil
}

// Close refuses new calls, waits for those on their way and ends every
// goroutine. A context that is over only ends the waiting.
func (t *Tier) Close(ctx context.Context) error {
	t.mu.Lock()
	closed := t.closed
	t.closed = true
	t.mu.Unlock()
	if closed {
		return nil
	}
	close(t.ended)
	t.stop()
	done := make(chan error, 1)
	go func() {
		t.calls.Wait() // each is bounded by its timeout
		t.reads.close()
		t.writes.close()
		t.workers.Wait()
		err := t.probe.client.Close()
		for _, s := range t.slots {
			err = errors.Join(err, s.client.Close())
		}
		done <- err
	}()
	select {
	case err := <-done:
		return tiers.Fail("close", t.name, tiers.Key{}, err)
	case <-ctx.Done():
		return tiers.Fail("close", t.name, tiers.Key{}, context.Cause(ctx))
	}
}

// enter begins a call, which ends with t.calls.Done.
func (t *Tier) enter() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return tiers.ErrClosed
	}
	t.calls.Add(1)
	return nil
}

// run does calls within the life of the tier.
func (t *Tier) run(ctx context.Context, cs ...*call) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.calls.Done()
	if len(cs) == 1 {
		return t.do(ctx, cs[0])
	}
	return t.doAll(ctx, cs)
}

// fail completes an error and counts the ones that are about the store.
func (t *Tier) fail(op string, k tiers.Key, err error) error {
	if err == nil {
		return nil
	}
	for _, answer := range []error{tiers.ErrNotFound, tiers.ErrExists, tiers.ErrConflict, tiers.ErrClosed, context.Canceled} {
		if errors.Is(err, answer) {
			return tiers.Fail(op, t.name, k, err)
		}
	}
	t.count.errors.Add(1)
	return tiers.Fail(op, t.name, k, err)
}

// noteVersion remembers the highest version seen, but for one that no server
// counts with: nothing could be saved above it.
func (t *Tier) noteVersion(v tiers.Version) {
	if v > maxVersion {
		return
	}
	for {
		old := t.high.Load()
		if uint64(v) <= old || t.high.CompareAndSwap(old, uint64(v)) {
			return
		}
	}
}

// Load answers the record, or tiers.ErrNotFound.
func (t *Tier) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if err := k.Check(); err != nil {
		return tiers.Record{}, t.fail("load", k, err)
	}
	c := newRead(replyText, "get", t.names.value(k))
	if err := t.run(ctx, c); err != nil {
		return tiers.Record{}, t.fail("load", k, err)
	}
	if len(c.text) == 0 {
		t.count.misses.Add(1)
		return tiers.Record{}, t.fail("load", k, tiers.ErrNotFound)
	}
	r, err := decode(k, c.text)
	if err != nil {
		return tiers.Record{}, t.fail("load", k, tiers.Hint(err, corruptHint))
	}
	t.count.hits.Add(1)
	t.noteVersion(r.Version)
	return r, nil
}

const corruptHint = "save it anew, delete it, or restore it from a backup"

// Save stores the record if the condition holds.
func (t *Tier) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	out, err := t.saveAll(ctx, []tiers.Record{r}, []tiers.Cond{c})
	if err != nil {
		return tiers.Record{}, t.fail("save", r.Key, err)
	}
	return out[0], nil
}

// Delete removes the key if the condition holds.
func (t *Tier) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	out, err := t.removeAll(ctx, []tiers.Key{k}, []tiers.Cond{c})
	if err != nil {
		return false, t.fail("delete", k, err)
	}
	return out[0], nil
}

// Exists tells whether a record is there.
func (t *Tier) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	if err := k.Check(); err != nil {
		return false, t.fail("exists", k, err)
	}
	c := newRead(replyInt, "exists", t.names.value(k))
	if err := t.run(ctx, c); err != nil {
		return false, t.fail("exists", k, err)
	}
	return c.n > 0, nil
}

// Touch sets the time that the record has left, by the server's clock.
func (t *Tier) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (existed bool, err error) {
	if err := k.Check(); err != nil {
		return false, t.fail("touch", k, err)
	}
	s := k.Space()
	c := newWrite(&t.scripts.touch, []string{t.names.value(k), t.names.bucket(s), t.names.spaces}, 0, packTTL(ttl), member(s))
	if err := t.run(ctx, c); err != nil {
		return false, t.fail("touch", k, err)
	}
	if len(c.text) < 10 {
		return false, t.fail("touch", k, fmt.Errorf("%w: redis answered %d bytes", tiers.ErrCorrupt, len(c.text)))
	}
	if c.text[0] == 'f' {
		return false, t.fail("touch", k, statusError(c.text[9]))
	}
	return c.text[9] == '1', nil
}

// Ping asks the server for a sign of life.
func (t *Tier) Ping(ctx context.Context) error {
	return t.fail("ping", tiers.Key{}, t.run(ctx, newRead(replyText, "ping")))
}

// Describe says what the tier is. Redis keeps what it was told to keep; how
// durable that is depends on its own settings, which Diagnose reads.
func (t *Tier) Describe() tiers.Info {
	return tiers.Info{Driver: "redis", Place: t.place, Scope: tiers.ScopeStore, Durable: true, MaxValue: t.maxValue}
}

// statusError is what a script says of a condition that does not hold.
func statusError(status byte) error {
	switch status {
	case 'k':
		return nil
	case 'x':
		return tiers.ErrExists
	case 'c':
		return tiers.ErrConflict
	case 'b':
		return tiers.Hint(fmt.Errorf("%w: the version of what is stored can't be read", tiers.ErrCorrupt), corruptHint)
	}
	return fmt.Errorf("%w: redis answered %q", tiers.ErrCorrupt, status)
}
