package database

import (
	"context"
	"errors"
	"sync"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// pool lends connections for reading. They are opened when they are first
// needed. A database in memory has one connection only, which the writer borrows
// as well.
type pool struct {
	open  connector
	idle  chan *conn
	spare chan struct{} // one for each connection that may still be opened

	mu     sync.Mutex
	closed bool
	users  int
	quiet  chan struct{} // closed when the pool is closed and unused
}

// connector opens a connection.
type connector func(ctx context.Context) (*conn, error)

func newPool(size int, open connector) *pool {
	p := &pool{open: open, idle: make(chan *conn, size), spare: make(chan struct{}, size), quiet: make(chan struct{})}
	for range size {
		p.spare <- struct{}{}
	}
	return p
}

// enter counts a user in, so that close waits for it.
func (p *pool) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return tiers.ErrClosed
	}
	p.users++
	return nil
}

func (p *pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	if p.closed && p.users == 0 {
		close(p.quiet)
	}
}

// get lends a connection, which goes back with put.
func (p *pool) get(ctx context.Context) (*conn, error) { return p.getBy(ctx, p.open) }

func (p *pool) getBy(ctx context.Context, open connector) (*conn, error) {
	select {
	case c := <-p.idle:
		return c, nil
	default:
	}
	select {
	case c := <-p.idle:
		return c, nil
	case <-p.spare:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c, err := open(ctx)
	if err != nil {
		p.spare <- struct{}{}
		return nil, err
	}
	return c, nil
}

func (p *pool) put(c *conn) { p.idle <- c }

// drop closes a lent connection, in whose place another one may be opened.
func (p *pool) drop(c *conn) {
	_ = c.close() // nothing was written through it
	p.spare <- struct{}{}
}

// shut refuses new users; quiet is closed when the last one has gone.
func (p *pool) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.users == 0 {
		close(p.quiet)
	}
}

// close closes the connections of a pool that is quiet.
func (p *pool) close() error {
	var errs []error
	for {
		select {
		case c := <-p.idle:
			errs = append(errs, c.close())
		default:
			return errors.Join(errs...)
		}
	}
}

// lender lends connections for reading: a tier does, and a snapshot.
type lender interface {
	read(ctx context.Context, fn func(c *conn) error) error
}

// read lends fn a connection. Where another process is in the way for a moment
// it runs fn again, until the context ends, so fn sets its results anew each
// time.
func (t *Tier) read(ctx context.Context, fn func(c *conn) error) error {
	if err := engine.Over(ctx); err != nil {
		return err
	}
	if err := t.pool.enter(); err != nil {
		return err
	}
	defer t.pool.leave()
	c, err := t.pool.get(ctx)
	if err != nil {
		return err
	}
	defer t.pool.put(c)
	err = fn(c)
	if !busy(err) {
		return err
	}
	return poll(ctx, nil, func() (bool, error) {
		err := fn(c)
		if busy(err) {
			return false, nil
		}
		return err == nil, err
	})
}
