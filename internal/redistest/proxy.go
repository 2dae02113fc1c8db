package redistest

import (
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

// URL answers redis://ADDR.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }
