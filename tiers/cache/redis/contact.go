package redis

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sagestore/sagestore/tiers"
)

// The oldest server whose SET knows PXAT.
const (
	oldestMajor = 6
	oldestMinor = 2
)

// serverInfo is what INFO says; nil when the user may not ask.
type serverInfo map[string]string

func parseInfo(text string) serverInfo {
	info := make(serverInfo)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(k, "#") {
			info[k] = v
		}
	}
	return info
}

// contact meets the server, at Open and whenever it was away: it may be another
// one now. It answers a *setupError for one that can't be used.
func (t *Tier) contact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	info := goredis.NewStringCmd(ctx, "info")
	clock := goredis.NewStringSliceCmd(ctx, "time")
	mark := goredis.NewStringCmd(ctx, "get", t.names.mark)
	cmds := []goredis.Cmder{info, clock, mark}
	for _, s := range t.scripts.all() {
		cmds = append(cmds, goredis.NewStringCmd(ctx, "script", "load", s.source))
	}
	began := t.time.now()
	disarm := t.probe.arm(ctx)
	t.probe.run(ctx, cmds)
	disarm()
	ended := t.time.now()
	for _, c := range cmds {
		err := c.Err()
		if err == nil || errors.Is(err, goredis.Nil) || c == goredis.Cmder(info) && code(err) == "NOPERM" {
			continue
		}
		return t.contactError(err)
	}
	if us, ok := microseconds(clock.Val()); ok {
		t.time.sample(us, began, ended)
	}
	if b, _ := mark.Bytes(); len(b) == 8 {
		t.noteVersion(tiers.Version(binary.BigEndian.Uint64(b)))
	}
	return t.accept(parseInfo(info.Val()))
}

// accept refuses servers that would lose data or not understand.
func (t *Tier) accept(info serverInfo) error {
	if v := info["redis_version"]; v != "" && tooOld(v) {
		return &setupError{tiers.Hint(fmt.Errorf("redis at %s has version %s, %d.%d or later is needed", t.place, v, oldestMajor, oldestMinor),
			"update the server")}
	}
	if p := info["maxmemory_policy"]; strings.HasPrefix(p, "allkeys-") && !t.allowEviction {
		return &setupError{tiers.Hint(fmt.Errorf("redis at %s may throw away any record when its memory is full (maxmemory-policy %s)", t.place, p),
			"set maxmemory-policy to noeviction, or accept the loss with redis.allow_eviction: true")}
	}
	return nil
}

func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err1 == nil && err2 == nil && (a < oldestMajor || a == oldestMajor && b < oldestMinor)
}

func microseconds(reply []string) (int64, bool) {
	if len(reply) != 2 {
		return 0, false
	}
	s, err1 := strconv.ParseInt(reply[0], 10, 64)
	us, err2 := strconv.ParseInt(reply[1], 10, 64)
	return s*1e6 + us, err1 == nil && err2 == nil
}

// contactError tells what an operator has to change from what passes.
func (t *Tier) contactError(err error) error {
	switch c := code(err); c {
	case "":
		if e := tlsFault(err); e != nil {
			return &setupError{e}
		}
		return err
	case "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "MAXCLIENTS", "TRYAGAIN":
		return err
	case "NOAUTH":
		return &setupError{tiers.Hint(fmt.Errorf("redis at %s wants a password: %w", t.place, err), passwordHint)}
	case "WRONGPASS":
		return &setupError{tiers.Hint(fmt.Errorf("redis at %s does not accept the user and the password: %w", t.place, err), passwordHint)}
	case "WRONGTYPE":
		return &setupError{tiers.Hint(fmt.Errorf("redis at %s holds something else under the key %s: %w", t.place, t.names.mark, err),
			"remove that key there, or name another prefix")}
	case "NOPERM":
		return &setupError{tiers.Hint(fmt.Errorf("redis at %s: %w", t.place, err), permissionHint(t.names))}
	default:
		return &setupError{fmt.Errorf("redis at %s: %w", t.place, err)}
	}
}

// explain looks closer at a server that took a connection and did not talk,
// and answers a *setupError when one side speaks TLS and the other does not.
func (t *Tier) explain(ctx context.Context) error {
	if t.network == "unix" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.dialTimeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, t.network, t.addr)
	if err != nil {
		return nil // it can't be reached, which is known already
	}
	defer func() { _ = c.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if t.secure {
		var b [1]byte
		_, _ = c.Write([]byte("PING\r\n"))
		if n, _ := c.Read(b[:]); n == 1 && (b[0] == '+' || b[0] == '-') {
			return &setupError{tlsFault(tls.RecordHeaderError{})}
		}
		return nil
	}
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // nothing is sent; this asks only whether the server knows TLS
	if s.HandshakeContext(ctx) == nil {
		return &setupError{tiers.Hint(fmt.Errorf("redis at %s wants TLS", t.place), "use rediss:// instead of redis://")}
	}
	return nil
}

// noMaintenance turns off notifications that only a hosted service sends.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
