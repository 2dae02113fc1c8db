//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/internal/proxytest"
)

// faultNames are the kinds of rounds.
//
//   - kill: workers are killed, at points or whenever.
//   - redis-kill: Redis is killed under them and comes back. It syncs each write,
//     so nothing acknowledged may be lost with it.
//   - redis-freeze: Redis is stopped for a while.
//   - fsync: the n-th sync of a worker fails, in the system call.
//   - full: files can't grow any more from some size on.
func faultNames() []string { return []string{"kill", "redis-kill", "redis-freeze", "fsync", "full"} }

// networkFaults are those of stores on PostgreSQL. A round has one to three of them,
// and all its workers are killed whatever else happens.
//
//   - postgres-fast, postgres-immediate: the server is stopped in that mode and started
//     again.
//   - postgres-cut, redis-cut: all connections are.
//   - postgres-commit: the server has committed, and nobody hears it.
//   - postgres-request, redis-request: the server gets the beginning of a request.
//   - postgres-answer, redis-answer: a worker gets the beginning of an answer.
func networkFaults() []string {
	return []string{
		"kill", "redis-kill", "redis-freeze", "postgres-fast", "postgres-immediate",
		"postgres-cut", "postgres-commit", "postgres-request", "postgres-answer", "redis-cut", "redis-request", "redis-answer",
	}
}

// known are the kinds of rounds that there can be.
func (t *torture) known() []string {
	if t.postgres {
		return networkFaults()
	}
	return faultNames()
}

// kinds answers what the next round is about.
func (h *history) kinds() []string {
	if h.postgres {
		var all []string
		for range 1 + h.rng.IntN(3) {
			all = append(all, h.faults[h.rng.IntN(len(h.faults))])
		}
		return all
	}
	kind := h.faults[h.rng.IntN(len(h.faults))]
	if h.rng.IntN(2) == 0 && h.faults[0] == "kill" {
		kind = "kill" // the most of them
	}
	if h.store.Redis == "" && strings.HasPrefix(kind, "redis") {
		kind = "kill"
	}
	return []string{kind}
}

// start starts a worker.
func (h *history) start(ctx context.Context, s *spec, kinds []string) (*exec.Cmd, error) {
	var wrapper []string
	switch {
	case slices.Contains(kinds, "fsync") && s.Slot == 1:
		if strace, err := exec.LookPath("strace"); err == nil {
			wrapper = []string{
				strace, "-f", "-qqq", "-o", "/dev/null", "-e", "trace=none", "-e", "signal=none",
				"-e", "inject=fsync,fdatasync:error=EIO:when=" + strconv.Itoa(20+h.rng.IntN(200)),
			}
		}
	case slices.Contains(kinds, "full") && s.Slot == 1:
		s.Limit = 200_000 + int64(h.rng.IntN(2_000_000))
	}
	cmd := h.child(ctx, "work", *s, wrapper...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	return cmd, nil
}

// disturb does to the servers what the round is about.
func (h *history) disturb(ctx context.Context, kind string) error {
	server, what, _ := strings.Cut(kind, "-")
	switch kind {
	case "redis-kill":
		h.pause(30)
		if err := h.redis.kill(); err != nil {
			return err
		}
		h.pause(60)
		return h.redis.running(ctx, h.torture)
	case "redis-freeze":
		h.pause(30)
		if err := h.redis.freeze(); err != nil {
			return err
		}
		h.pause(400)
		return h.redis.thaw()
	case "postgres-fast", "postgres-immediate":
		h.pause(60)
		sig := syscall.SIGINT
		if what == "immediate" {
			sig = syscall.SIGQUIT
		}
		if err := h.network.server.Shut(sig); err != nil { //nolint:contextcheck // it waits within bounds of its own
			return err
		}
		h.pause(60)
		return h.network.server.Again() //nolint:contextcheck // as above
	}
	switch server {
	case "postgres":
		h.cut(h.network.database, what)
	case "redis":
		h.cut(h.network.cache, what)
	}
	return nil
}

// cut loses something of the next connections, some times over.
func (h *history) cut(p *proxytest.Proxy, what string) {
	for range 1 + h.rng.IntN(5) {
		h.pause(40)
		switch what {
		case "cut":
			p.Cut()
		case "commit":
			p.LoseReply(pgtest.Committed)
		case "request":
			p.LoseRequest(h.rng.IntN(1500))
		case "answer":
			p.LoseRest(h.rng.IntN(200))
		}
	}
}

func (h *history) pause(most int) { time.Sleep(time.Duration(h.rng.IntN(most)) * time.Millisecond) }
