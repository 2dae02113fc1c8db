package redis

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// probe is the connection that meets the server, through the client library. It
// waits for nobody, nor does anybody wait for it.
type probe struct {
	socket
	client *goredis.Client
}

func newProbe(o goredis.Options, secure *tls.Config) *probe {
	p := &probe{}
	p.at(&o, secure)
	o.PoolSize = 1
	// A connection that can't be made is answered as one that fails when it is
	// used: the client's pool would else write to standard error, and after
	// enough failures refuse to dial at all.
	o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := p.dial(ctx)
		if err != nil {
			return noConn{err: err}, nil
		}
		return c, nil
	}
	p.client = goredis.NewClient(&o)
	return p
}

// run sends commands together. Each of them holds its own error.
func (p *probe) run(ctx context.Context, cmds []goredis.Cmder) {
	pipe := p.client.Pipeline()
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
