package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/tiers"
)

// Limits of the connections.
const (
	dialTime = 5 * time.Second
	// idleTime is how long a transaction may do nothing before the server ends it: the
	// writers of other processes may be waiting behind it.
	idleTime = 15 * time.Second
	// writeConns are those of the writer and its helper, and others to ask what became of
	// their commits, or to hold all writers.
	writeConns = 4
	// oldest is the oldest server that can tell the outcome of a transaction.
	oldest = 130000
)

// settings are those of every connection. All statements have an index to use, which
// the planner can't know of tables that have just been filled.
func (c Config) settings() map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"statement_timeout":                   ms(c.StatementTimeout),
		"lock_timeout":                        ms(c.LockTimeout),
		"idle_in_transaction_session_timeout": ms(idleTime),
		"enable_seqscan":                      "off",
		"enable_hashjoin":                     "off",
		"enable_mergejoin":                    "off",
		"jit":                                 "off",
		"default_transaction_isolation":       "read committed",
		"bytea_output":                        "hex",
		"tcp_keepalives_idle":                 "30",
	}
}

// parse reads the URL. Its errors never show the password.
func (c Config) parse() (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, tiers.Hint(fmt.Errorf("the URL of the server can't be read: %w", hidden(err, c.URL)), "write postgres.url as postgres://user@host:5432/database?sslmode=verify-full")
	}
	p.MaxConns, p.MinConns = int32(c.Pool), 0 //nolint:gosec // checked
	cc := p.ConnConfig
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = dialTime
	}
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "sagestore"
	}
	if c.Pooler {
		cc.DefaultQueryExecMode = pgx.QueryExecModeExec
		cc.StatementCacheCapacity, cc.DescriptionCacheCapacity = 0, 0
		return p, nil
	}
	maps.Copy(cc.RuntimeParams, c.settings())
	return p, nil
}

// hidden leaves out of an error what was to be parsed, which may have a password in
// it.
func hidden(err error, url string) error {
	if url == "" || !strings.Contains(err.Error(), url) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), url, "..."))
}

// placeOf names where a store is, without a secret.
func placeOf(cc *pgx.ConnConfig) string {
	host := cc.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, strconv.Itoa(int(cc.Port)))
	}
	return host + "/" + cc.Database
}

// one answers a pool of so many connections with the settings of another.
func one(ctx context.Context, p *pgxpool.Config, n int32) (*pgxpool.Pool, error) {
	p = p.Copy()
	p.MaxConns = n
	return pgxpool.NewWithConfig(ctx, p)
}

// lockKey is the key of an advisory lock of this store. PostgreSQL keeps them apart
// by database.
func lockKey(schema, name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("sagestore/" + schema + "/" + name)) // never fails
	return int64(h.Sum64())                                    //nolint:gosec // any number will do
}

// The server is looked at before anything is done to it.
const lookAtServer = `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
	current_setting('transaction_read_only')::bool, current_setting('server_encoding'),
	current_setting('synchronous_commit'), current_setting('fsync')::bool, current_setting('server_version')`

// server is what a server says of itself.
type server struct {
	number            int
	replica, readOnly bool
	encoding, commits string
	syncs             bool
	version           string
}

func lookAt(ctx context.Context, q querier) (s server, err error) {
	err = q.QueryRow(ctx, lookAtServer).Scan(&s.number, &s.replica, &s.readOnly, &s.encoding, &s.commits, &s.syncs, &s.version)
	return s, err
}

// check answers why the server can't be used.
func (s server) check(place string) error {
	switch {
	case s.number < oldest:
		return tiers.Hint(fmt.Errorf("%w: the server of %s has version %s", tiers.ErrUnsupported, place, s.version), "PostgreSQL 13 or newer is needed: upgrade the server")
	case s.replica:
		return tiers.Hint(fmt.Errorf("%w: the server of %s is a replica", tiers.ErrReadOnly, place), "name the primary in postgres.url, or several hosts with target_session_attrs=read-write")
	case s.readOnly:
		return tiers.Hint(fmt.Errorf("%w: transactions on %s are read-only by default", tiers.ErrReadOnly, place), "turn default_transaction_read_only off for this account, or name the primary in postgres.url")
	case s.encoding != "UTF8":
		return tiers.Hint(fmt.Errorf("%w: the database %s has the encoding %s", tiers.ErrUnsupported, place, s.encoding), "create it with the encoding UTF8")
	}
	return nil
}
