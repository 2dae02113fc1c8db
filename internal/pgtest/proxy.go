package pgtest

import (
	"net/url"
	"testing"

	"github.com/sagestore/sagestore/internal/proxytest"
)

// Proxy stands between a client and a server and loses what a network loses.
type Proxy struct{ *proxytest.Proxy }

// NewProxy starts a proxy in front of a TCP address. It ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return &Proxy{proxytest.New(tb, target)}
}

// Committed is how a server says that it has committed, for LoseReply.
const Committed = "COMMIT\x00"

// URL answers the URL of the server with the proxy in its place.
func (p *Proxy) URL(tb testing.TB, server string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = p.Addr()
	return u.String()
}
