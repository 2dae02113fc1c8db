package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

//nolint:gochecknoglobals // constant
var countAll = `SELECT count(*), coalesce(sum(octet_length(key) + octet_length(value)), 0)::bigint FROM ~.records WHERE ` + liveSQL + nowSQL("$1") + `)`

// Describe implements tiers.Describer.
func (t *Tier) Describe() tiers.Info {
	return tiers.Info{Driver: "postgres", Place: t.place + " schema " + t.schema, Scope: tiers.ScopeStore, Durable: true, MaxValue: maxValue}
}

// Ping implements tiers.Pinger. A server that takes no writes is no healthy one.
func (t *Tier) Ping(ctx context.Context) error {
	err := t.lend(ctx, func(q querier) error {
		s, err := lookAt(ctx, q)
		if err != nil {
			return err
		}
		return s.check(t.place)
	})
	if err != nil {
		return t.failed("ping", tiers.Key{}, err)
	}
	return nil
}

// Stats implements tiers.Statser. It reads all records' sizes.
func (t *Tier) Stats(ctx context.Context) (tiers.Stats, error) {
	s := tiers.Stats{Hits: t.hits.Load(), Misses: t.misses.Load(), Errors: t.failures.Load(), Expired: t.expired.Load()}
	err := t.lend(ctx, func(q querier) error {
		return q.QueryRow(ctx, t.sql(countAll), t.now()).Scan(&s.Entries, &s.Bytes)
	})
	if err != nil {
		return tiers.Stats{}, t.failed("stats", tiers.Key{}, err)
	}
	return s, nil
}

// Limits of what is called well.
const (
	oldTransaction = 10 * time.Minute // it keeps the server from removing what was replaced
	farClock       = 5 * time.Second
)

const (
	longest = `SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`
	mayNot = `SELECT current_user::text, coalesce(array_agg(c.relname::text ORDER BY c.relname), '{}') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND CASE
			WHEN c.relkind IN ('r', 'p') THEN NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
				AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
			WHEN c.relkind = 'S' THEN NOT (has_sequence_privilege(c.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'UPDATE')) END`
	connections  = `SELECT count(*), current_setting('max_connections')::bigint FROM pg_stat_activity`
	replacedOnes = `SELECT coalesce(array_agg(nspname::text ORDER BY nspname), '{}') FROM pg_namespace WHERE starts_with(nspname::text, $1)`
	rubbish      = `SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint, coalesce(sum(pg_total_relation_size(relid)), 0)::bigint
		FROM pg_stat_user_tables WHERE schemaname = $1`
)

// Diagnose implements tiers.Diagnoser.
func (t *Tier) Diagnose(ctx context.Context) []tiers.Finding {
	var fs []tiers.Finding
	err := t.lend(ctx, func(q querier) error {
		fs = nil
		for _, find := range []func(context.Context, querier) (tiers.Finding, error){
			t.findServer, t.findAccount, t.findDurability, t.findSchema, t.findConnections, t.findOldest, t.findRubbish, t.findClock,
		} {
			f, err := find(ctx, q)
			if err != nil {
				return err
			}
			fs = append(fs, f)
		}
		return nil
	})
	if err != nil {
		fs = append(fs, tiers.Finding{Subject: "database", Message: t.fail("diagnose", tiers.Key{}, err).Error(), Hint: "check that the server of " + t.place + " runs"})
	}
	return fs
}

func (t *Tier) findServer(ctx context.Context, q querier) (tiers.Finding, error) {
	s, err := lookAt(ctx, q)
	f := tiers.Finding{OK: true, Subject: "PostgreSQL", Message: "version " + s.version + ", " + t.place + ", schema " + t.schema}
	if why := s.check(t.place); err == nil && why != nil {
		f.OK, f.Message, f.Hint = false, why.Error(), "see the message"
	}
	return f, err
}

// findAccount tells of what the account may read but not write: the store opens, and saves
// would fail.
func (t *Tier) findAccount(ctx context.Context, q querier) (tiers.Finding, error) {
	var account string
	var refused []string
	err := q.QueryRow(ctx, mayNot, t.schema).Scan(&account, &refused)
	f := tiers.Finding{OK: len(refused) == 0, Subject: "account", Message: account + " may read and write"}
	if !f.OK {
		f.Message = fmt.Sprintf("%s may not read and write %s in schema %s, and saves are refused", account, strings.Join(refused, ", "), t.schema)
		f.Hint = fmt.Sprintf("as the owner: GRANT ALL ON ALL TABLES IN SCHEMA %s TO %s; GRANT ALL ON ALL SEQUENCES IN SCHEMA %[1]s TO %[2]s", t.schema, account)
	}
	return f, err
}

func (t *Tier) findDurability(ctx context.Context, q querier) (tiers.Finding, error) {
	s, err := lookAt(ctx, q)
	f := tiers.Finding{OK: true, Subject: "writes", Message: "synchronous_commit is " + s.commits}
	if s.commits == "off" {
		f.Message += "; saves are made durable nevertheless"
	}
	if !s.syncs {
		f.OK, f.Message, f.Hint = false, "fsync is off: a power cut may destroy the database", "turn fsync on in postgresql.conf"
	}
	return f, err
}

func (t *Tier) findSchema(ctx context.Context, q querier) (tiers.Finding, error) {
	n, err := t.inspect(ctx, q)
	f := tiers.Finding{OK: n == schemaNow, Subject: "schema", Message: fmt.Sprintf("schema %d of %d", n, schemaNow)}
	switch {
	case err != nil:
		f.Message, f.Hint = err.Error(), "restart with the version of sagestore that made the tables, or restore a backup"
	case !f.OK:
		f.Hint = "another version of sagestore has changed the tables: restart with that one"
	}
	return f, nil
}

func (t *Tier) findConnections(ctx context.Context, q querier) (tiers.Finding, error) {
	var n, most int64
	err := q.QueryRow(ctx, connections).Scan(&n, &most)
	f := tiers.Finding{OK: n < most*9/10, Subject: "connections", Message: fmt.Sprintf("%d of %d", n, most)}
	if !f.OK {
		f.Hint = "lower postgres.pool, put a pooler in between and set postgres.pooler, or raise max_connections"
	}
	return f, err
}

func (t *Tier) findOldest(ctx context.Context, q querier) (tiers.Finding, error) {
	var seconds float64
	err := q.QueryRow(ctx, longest).Scan(&seconds)
	age := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	f := tiers.Finding{OK: age < oldTransaction, Subject: "transactions", Message: fmt.Sprintf("the oldest one has run for %v", age)}
	if !f.OK {
		f.Hint = "it keeps the server from removing what was replaced: see pg_stat_activity and end it"
	}
	return f, err
}

func (t *Tier) findRubbish(ctx context.Context, q querier) (tiers.Finding, error) {
	var dead, live, size int64
	err := q.QueryRow(ctx, rubbish, t.schema).Scan(&dead, &live, &size)
	f := tiers.Finding{OK: dead < 100_000 || dead < 4*live, Subject: "room", Message: fmt.Sprintf("%d MiB, about %d rows and %d replaced ones", size>>20, live, dead)}
	if !f.OK {
		f.Hint = "autovacuum does not keep up: check that it is on"
		return f, err
	}
	var kept []string
	if err == nil {
		err = q.QueryRow(ctx, replacedOnes, t.beside("old", nil)).Scan(&kept)
	}
	if len(kept) > 0 {
		f.Message += "; what restores replaced is kept in " + strings.Join(kept, ", ")
		f.Hint = "when it is not needed any more: DROP SCHEMA " + kept[0] + " CASCADE"
	}
	return f, err
}

// findClock only tells: nothing depends on the clocks agreeing.
func (t *Tier) findClock(ctx context.Context, q querier) (tiers.Finding, error) {
	var us int64
	before := tiers.SystemClock().Now()
	err := q.QueryRow(ctx, `SELECT `+clockSQL).Scan(&us)
	apart := time.UnixMicro(us).Sub(before).Round(time.Millisecond)
	f := tiers.Finding{OK: true, Subject: "clock", Message: fmt.Sprintf("the server's is %v ahead of this machine's", apart)}
	if apart.Abs() > farClock {
		f.Message += "; records expire by the server's"
	}
	return f, err
}
