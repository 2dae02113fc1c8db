package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Away answers nil while the server answers, else why it does not.
func (t *Tier) Away() error { return t.health.away() }

// Ready returns once the server answers.
func (t *Tier) Ready(ctx context.Context) error { return t.health.wait(ctx, t.ended) }

// ServerNow estimates the server's clock; it is never ahead of it by more than
// the clocks drifted since the last reply.
func (t *Tier) ServerNow() (time.Time, bool) { return t.time.estimate() }

// Seen answers the highest version that the tier has met.
func (t *Tier) Seen() tiers.Version { return tiers.Version(t.high.Load()) }

// How far the clocks may differ, and how slow a reply may be, before Diagnose
// remarks on it.
const (
	clockTolerance   = 2 * time.Second
	latencyTolerance = 50 * time.Millisecond
)

// Diagnose checks the server's version and settings, the clocks and the way
// there.
func (t *Tier) Diagnose(ctx context.Context) []tiers.Finding {
	began := t.time.now()
	if err := t.run(ctx, newRead(replyText, "ping")); err != nil {
		return []tiers.Finding{{Subject: "redis", Message: err.Error(), Hint: hintOf(err)}}
	}
	took := t.time.now() - began
	out := []tiers.Finding{{OK: true, Subject: "redis", Message: t.place + " answers"}}
	out = append(out, finding(took <= latencyTolerance, "redis latency",
		fmt.Sprintf("%s there and back", took.Round(10*time.Microsecond)), "use a redis that is nearer"))

	asked := newRead(replyText, "info")
	if err := t.run(ctx, asked); err != nil {
		return append(out, tiers.Finding{
			Subject: "redis settings", Message: "the user may not ask for them: " + err.Error(), Hint: "allow the user +info",
		})
	}
	info := parseInfo(string(asked.text))
	version := info["redis_version"]
	out = append(out, finding(!tooOld(version), "redis version", version,
		fmt.Sprintf("update redis to %d.%d or later", oldestMajor, oldestMinor)))
	if info["role"] == "slave" {
		out = append(out, tiers.Finding{Subject: "redis role", Message: "it is a replica, which takes no saves", Hint: "name the primary in the url"})
	}
	out = append(out, evictionFinding(info), persistenceFinding(info))
	return append(out, t.clockFinding())
}

func finding(ok bool, subject, message, hint string) tiers.Finding {
	f := tiers.Finding{OK: ok, Subject: subject, Message: message}
	if !ok {
		f.Hint = hint
	}
	return f
}

func evictionFinding(info serverInfo) tiers.Finding {
	const subject = "redis eviction"
	policy := info["maxmemory_policy"]
	limit := "no limit of memory"
	if m := info["maxmemory"]; m != "" && m != "0" {
		limit = "maxmemory " + info["maxmemory_human"]
	}
	message := fmt.Sprintf("maxmemory-policy %s, %s", policy, limit)
	switch {
	case policy == "noeviction" || policy == "":
		return tiers.Finding{OK: true, Subject: subject, Message: message}
	case len(policy) > 8 && policy[:8] == "volatile":
		return tiers.Finding{
			Subject: subject, Message: message + ": records with a TTL may be thrown away, and saves without one fail, when the memory is full",
			Hint: "set maxmemory-policy to noeviction where the cache is the only place of its records",
		}
	}
	return tiers.Finding{
		Subject: subject, Message: message + ": any record may be thrown away when the memory is full",
		Hint: "set maxmemory-policy to noeviction",
	}
}

func persistenceFinding(info serverInfo) tiers.Finding {
	const subject = "redis persistence"
	switch {
	case info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err", info["rdb_last_bgsave_status"] == "err":
		return tiers.Finding{Subject: subject, Message: "the last attempt to write to disk failed", Hint: "look at the disk and the log of redis"}
	case info["aof_enabled"] == "1":
		return tiers.Finding{OK: true, Subject: subject, Message: "append-only file"}
	case info["rdb_last_save_time"] != "" && info["rdb_saves"] != "0" && info["rdb_saves"] != "":
		return tiers.Finding{OK: true, Subject: subject, Message: "snapshots; a crash loses what came after the last one"}
	}
	return tiers.Finding{
		OK: true, Subject: subject,
		Message: "no append-only file, and no snapshot so far, so a restart of redis loses all records; set appendonly yes where they have to survive",
	}
}

func (t *Tier) clockFinding() tiers.Finding {
	ahead, slack := t.time.offset()
	return finding(ahead.Abs() <= clockTolerance+slack, "redis clock",
		fmt.Sprintf("%s ahead of this host's, to within %s", ahead.Round(time.Millisecond), slack.Round(time.Microsecond)),
		"run a time service on both hosts; expiry follows the clock of redis")
}
