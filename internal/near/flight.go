package near

import (
	"context"
	"errors"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Flight is a load that is under way. Who leads it asks the home and calls Land;
// all others call Wait.
type Flight struct {
	l     *Layer
	key   Key
	hash  uint64
	began time.Time
	done  chan struct{}

	// Guarded by the shard.
	keeps bool          // what it finds may be held
	least tiers.Version // what loads that landed meanwhile have found
	none  bool          // one of these has found none

	// Set by Land.
	entry  *Entry
	record tiers.Record
	err    error
	left   bool
}

// Join answers what is held of a key, or else the load of it that is under way; the
// caller leads that when there was none.
func (l *Layer) Join(k Key) (e *Entry, f *Flight, lead bool) {
	if e := l.Get(k); e != nil {
		return e, nil, false
	}
	h := l.hash(k)
	sh := l.shard(h)
	now := l.clock.Now()
	sh.Lock()
	defer sh.Unlock()
	if e := sh.entries[k]; e != nil {
		if now.Before(e.until) {
			l.hit(e)
			return e, nil, false
		}
		l.take(sh, k)
	}
	l.count.misses.Add(1)
	b := sh.busyOf(k)
	if b.flight != nil {
		return nil, b.flight, false
	}
	return nil, l.launch(b, k, h, now), true
}

// Lead makes the caller the leader of a load that begins now, whatever is held or
// under way: later callers join this one.
func (l *Layer) Lead(k Key) *Flight {
	h := l.hash(k)
	sh := l.shard(h)
	now := l.clock.Now()
	sh.Lock()
	defer sh.Unlock()
	b := sh.busyOf(k)
	b.part()
	return l.launch(b, k, h, now)
}

func (l *Layer) launch(b *busy, k Key, hash uint64, now time.Time) *Flight {
	l.count.loads.Add(1)
	l.keep.evictor.Touch(hash) // so that what is wanted often is let in
	b.flight = &Flight{
		l: l, key: k, hash: hash, began: now, done: make(chan struct{}),
		keeps: b.changes == 0 && !now.Before(b.blocked),
	}
	return b.flight
}

// part ends the joining of a load: it may have looked too early for who comes now.
func (b *busy) part() {
	if b.flight != nil {
		b.flight.keeps = false
		b.flight = nil
	}
}

// landed ends the joining of a load that has landed. Another that began meanwhile may
// have looked before this one did, and must find nothing older now. To let nobody join
// it from then on would be enough as well, but the next one would end the same way when
// that lands, and so on for as long as callers come.
func (b *busy) landed(f *Flight) {
	switch {
	case b.flight == f:
		b.flight = nil
	case b.flight == nil:
	case f.err == nil:
		b.flight.least = max(b.flight.least, f.record.Version)
	case errors.Is(f.err, tiers.ErrNotFound):
		b.flight.none = true
	}
}

func (sh *shard) busyOf(k Key) *busy {
	b := sh.busy[k]
	if b == nil {
		b = new(busy)
		sh.busy[k] = b
	}
	return b
}

// rest forgets a key on which nothing is under way.
func (sh *shard) rest(k Key, b *busy, now time.Time) {
	if b.flight == nil && b.changes == 0 && !now.Before(b.blocked) {
		delete(sh.busy, k)
	}
}

// Land ends the load with what the home answered, and answers what is held of it
// now: nil when it may not be, or can't be. left says that the error is due to the
// leader, who did not wait for the answer, and is none of the others'.
func (f *Flight) Land(r *tiers.Record, err error, left bool) *Entry {
	l := f.l
	absent := errors.Is(err, tiers.ErrNotFound)
	var e *Entry
	if err == nil || absent {
		e = l.entry(f.key, f.hash, r, absent, f.began)
	}
	f.record, f.err, f.left = *r, err, left
	sh := l.shard(f.hash)
	sh.Lock()
	if b := sh.busy[f.key]; b != nil {
		b.landed(f)
		sh.rest(f.key, b, l.clock.Now())
	}
	if absent && f.least > 0 || err == nil && (f.none || r.Version < f.least) {
		f.keeps, f.left = false, true // it may be older than what was seen before others have joined
	}
	if f.keeps && (err == nil || absent) {
		l.take(sh, f.key)
		if e != nil && l.put(sh, e) {
			f.entry = e
		}
	}
	f.keeps = false
	sh.Unlock()
	close(f.done)
	return f.entry
}

// Wait waits for the leader, or for the end of the context, whose cause it answers.
// again says that the leader has left, or has found what may be too old by now, and the
// caller has to join anew.
func (f *Flight) Wait(ctx context.Context) (e *Entry, r tiers.Record, again bool, err error) {
	select {
	case <-f.done:
		return f.entry, f.record, f.left, f.err
	case <-ctx.Done():
		return nil, tiers.Record{}, false, context.Cause(ctx)
	}
}
