// Package proxytest loses what a network loses between a client and a server.
package proxytest

import (
	"bytes"
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
	wg       sync.WaitGroup
	lost     atomic.Int64
	sent     atomic.Int64
	swallow  atomic.Bool

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // both sides of all connections
	refuse  bool
	closed  bool
	reply   []byte // what the server says that is not to be passed on; nil: all is
	leave   bool   // after the reply nobody is let in
	request int    // after how many bytes of a request the connection is cut; -1: it is not
	rest    int    // after how many bytes of an answer; -1: it is not
}

// New starts a proxy in front of a TCP address. It ends with the test.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := Open(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Open starts a proxy outside of a test. It ends by Close.
func Open(target string) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]struct{}), request: -1, rest: -1}
	p.wg.Add(1)
	go p.accept()
	return p, nil
}

// Addr answers where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

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

// LoseReply cuts the connection over which the server says this next, before the
// client has any of it.
func (p *Proxy) LoseReply(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = []byte(text)
}

// LoseAllFrom is LoseReply, after which nobody is let in until Refuse(false).
func (p *Proxy) LoseAllFrom(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply, p.leave = []byte(text), true
}

// LoseRequest cuts the connection over which a client sends more than so many bytes
// at once next, when the server has had those.
func (p *Proxy) LoseRequest(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request = after
}

// LoseRest cuts the connection over which the server says more than so many bytes at
// once next, when the client has had those.
func (p *Proxy) LoseRest(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = after
}

// Mend ends all that the methods above have said.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse, p.reply, p.leave, p.request, p.rest = false, nil, false, -1, -1
}

// Swallow drops what the server says while it is on; what the client says
// still reaches the server.
func (p *Proxy) Swallow(on bool) { p.swallow.Store(on) }

// Lost is how many connections were cut by LoseReply, LoseRequest and LoseRest.
func (p *Proxy) Lost() int { return int(p.lost.Load()) }

// Sent is how many times clients have sent something, all at once.
func (p *Proxy) Sent() int { return int(p.sent.Load()) }

// ofServer answers how much of what the server says is passed on, and whether the
// connection is cut then.
func (p *Proxy) ofServer(b []byte) (n int, cut bool) {
	if p.swallow.Load() {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rest >= 0 && len(b) > p.rest {
		n, p.rest = p.rest, -1
		return n, true
	}
	if p.reply == nil || !bytes.Contains(b, p.reply) {
		return len(b), false
	}
	p.refuse = p.refuse || p.leave
	p.reply, p.leave = nil, false
	return 0, true
}

func (p *Proxy) ofClient(b []byte) (n int, cut bool) {
	if len(b) > 0 {
		p.sent.Add(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.request < 0 || len(b) <= p.request {
		return len(b), false
	}
	n, p.request = p.request, -1
	return n, true
}

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
		p.wg.Go(func() { p.pipe(server, client, p.ofClient) })
		p.wg.Go(func() { p.pipe(client, server, p.ofServer) })
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
func (p *Proxy) pipe(to, from net.Conn, look func([]byte) (int, bool)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		pass, cut := look(buf[:n])
		if pass > 0 {
			if _, werr := to.Write(buf[:pass]); werr != nil {
				err = werr
			}
		}
		if cut {
			p.lost.Add(1)
		}
		if err != nil || cut {
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

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.wg.Wait()
}
