package redistest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a client and a server and loses what a network loses.
type Proxy struct {
	listener net.Listener
	target   string
	swallow  atomic.Bool
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // both sides of all connections
	refuse bool
	closed bool
}

// NewProxy starts a proxy in front of a TCP address. It ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.wg.Add(1)
	go p.accept()
	tb.Cleanup(p.close)
	return p
}

// Addr answers where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL answers redis://ADDR.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Cut closes all connections that are open now.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Refuse closes new connections at once while it is on, and those that are
// open when it is turned on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.Cut()
	}
}

// Swallow drops what the server says while it is on; what the client says
// still reaches the server.
func (p *Proxy) Swallow(on bool) { p.swallow.Store(on) }

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			_ = client.Close()
			_ = server.Close()
			continue
		}
		p.wg.Go(func() { p.pipe(server, client, nil) })
		p.wg.Go(func() { p.pipe(client, server, &p.swallow) })
	}
}

func (p *Proxy) keep(cs ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.closed {
		return false
	}
	for _, c := range cs {
		p.conns[c] = struct{}{}
	}
	return true
}

// pipe copies until either side ends, and then ends both.
func (p *Proxy) pipe(to, from net.Conn, swallow *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && (swallow == nil || !swallow.Load()) {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
	p.mu.Lock()
	delete(p.conns, to)
	delete(p.conns, from)
	p.mu.Unlock()
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.wg.Wait()
}
