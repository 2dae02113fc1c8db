//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"
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

// start starts a worker.
func (h *history) start(ctx context.Context, s *spec, kind string) (*exec.Cmd, error) {
	var wrapper []string
	switch {
	case kind == "fsync" && s.Slot == 1:
		if strace, err := exec.LookPath("strace"); err == nil {
			wrapper = []string{
				strace, "-f", "-qqq", "-o", "/dev/null", "-e", "trace=none", "-e", "signal=none",
				"-e", "inject=fsync,fdatasync:error=EIO:when=" + strconv.Itoa(20+h.rng.IntN(200)),
			}
		}
	case kind == "full" && s.Slot == 1:
		s.Limit = 200_000 + int64(h.rng.IntN(2_000_000))
	}
	cmd := h.child(ctx, "work", *s, wrapper...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	return cmd, nil
}

// disturb does to Redis what the round is about.
func (h *history) disturb(ctx context.Context, kind string) error {
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
	}
	return nil
}

func (h *history) pause(most int) { time.Sleep(time.Duration(h.rng.IntN(most)) * time.Millisecond) }
