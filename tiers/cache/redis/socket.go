package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// socket makes connections to the server, one at a time. Whoever works with one
// can be interrupted without touching what others do.
type socket struct {
	network, addr string
	secure        *tls.Config // nil: no TLS
	timeout       time.Duration
	cut           atomic.Bool // interrupt was called

	mu     sync.Mutex
	conn   net.Conn           // the newest
	cancel context.CancelFunc // of a dial that is going on
}

// at sets where the server is.
func (s *socket) at(o *goredis.Options, secure *tls.Config) {
	s.network, s.addr, s.secure = cmp.Or(o.Network, "tcp"), o.Addr, secure
	s.timeout = o.DialTimeout
}

// arm makes the end of the context interrupt the socket. The function it answers
// ends that and tells whether it has happened; the socket may be used by others
// only after it.
func (s *socket) arm(ctx context.Context) (disarm func() (interrupted bool)) {
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

func (s *socket) interrupted() bool { return s.cut.Load() }

func (s *socket) interrupt() {
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

// dial makes a connection. The error is a *dialError.
func (s *socket) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	c, err := connect(ctx, s.network, s.addr, s.secure)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
	if err == nil && s.cut.Load() {
		_ = c.Close()
		err = net.ErrClosed
	}
	if err != nil {
		return nil, &dialError{err}
	}
	s.conn = c
	return c, nil
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
