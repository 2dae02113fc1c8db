package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

// slot is one connection of a lane. It has a client of its own, so that whoever
// uses it can end its work early without touching that of others.
type slot struct {
	client goredis.UniversalClient
	cut    atomic.Bool // interrupt was called

	mu     sync.Mutex
	conn   net.Conn           // the newest
	cancel context.CancelFunc // of a dial that is going on
}

func newSlot(o goredis.Options, secure *tls.Config) *slot {
	s := &slot{}
	o.PoolSize = 1
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.dial(ctx, network, addr, secure, o.DialTimeout), nil
	}
	s.client = goredis.NewClient(&o)
	return s
}

// run sends commands together. Each of them holds its own error.
func (s *slot) run(ctx context.Context, cmds []goredis.Cmder) {
	if len(cmds) == 1 {
		_ = s.client.Process(ctx, cmds[0])
		return
	}
	pipe := s.client.Pipeline()
	for _, c := range cmds {
		_ = pipe.Process(ctx, c) // only queues
	}
	_, err := pipe.Exec(ctx)
	if err == nil {
		return
	}
	for _, c := range cmds {
		if c.Err() != nil {
			return
		}
	}
	// The server refused the connection itself, for a wrong password for
	// instance, and the commands, which were not sent, look as if they were
	// answered.
	for _, c := range cmds {
		c.SetErr(err)
	}
}

// arm makes the end of the context interrupt the slot. The function it answers
// ends that and tells whether it has happened; the slot may be used by others
// only after it.
func (s *slot) arm(ctx context.Context) (disarm func() (interrupted bool)) {
	if ctx.Done() == nil {
		return func() bool { return false }
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.interrupt()
		close(done)
	})
	return func() bool {
		if stop() {
			return false
		}
		<-done
		s.cut.Store(false)
		return true
	}
}

func (s *slot) interrupted() bool { return s.cut.Load() }

func (s *slot) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut.Store(true)
	if s.cancel != nil {
		s.cancel()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

// dial makes a connection. One that can't be made is answered as a connection
// that fails when it is used: the pool of the driver below would else write to
// standard error, and after enough failures refuse to dial at all.
func (s *slot) dial(ctx context.Context, network, addr string, secure *tls.Config, timeout time.Duration) net.Conn {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	c, err := connect(ctx, network, addr, secure)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
	if err == nil && s.cut.Load() {
		_ = c.Close()
		err = net.ErrClosed
	}
	if err != nil {
		return noConn{err: &dialError{err}}
	}
	s.conn = c
	return c
}

func connect(ctx context.Context, network, addr string, secure *tls.Config) (net.Conn, error) {
	d := net.Dialer{KeepAlive: time.Minute}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil || secure == nil {
		return c, err
	}
	s := tls.Client(c, secure)
	if err := s.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return s, nil
}

// noConn is a connection that could not be made.
type noConn struct {
	net.Conn
	err error
}

func (c noConn) Read([]byte) (int, error)         { return 0, c.err }
func (c noConn) Write([]byte) (int, error)        { return 0, c.err }
func (c noConn) Close() error                     { return nil }
func (c noConn) SetDeadline(time.Time) error      { return nil }
func (c noConn) SetReadDeadline(time.Time) error  { return nil }
func (c noConn) SetWriteDeadline(time.Time) error { return nil }
func (c noConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c noConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// deadline is a context with a deadline and without a timer: the driver below
// passes it to the connection, which has one.
func deadline(within time.Duration) context.Context {
	return timerless{context.Background(), tiers.SystemClock().Now().Add(within)}
}

type timerless struct {
	context.Context //nolint:containedctx // it is a context
	at              time.Time
}

func (t timerless) Deadline() (time.Time, bool) { return t.at, true }
