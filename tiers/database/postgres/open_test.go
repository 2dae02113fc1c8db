package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestManyOpenAnEmptyDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	c := shared(t)
	var wg sync.WaitGroup
	all := make([]*Tier, 10)
	for i := range all {
		wg.Go(func() {
			tier, err := Open(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = tier
			if _, err := tier.Save(t.Context(), record(fmt.Sprint(i), "v"), tiers.Cond{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, tier := range all {
		if tier == nil {
			continue
		}
		n, _, err := tier.Count(t.Context(), named("x").Space())
		if err != nil || n != int64(len(all)) {
			t.Errorf("it counts %d records with %v", n, err)
		}
		if err := tier.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// early looks at the tables a moment before they are made, and asks for their number
// after that.
type early struct{ querier }

func (e early) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	if query == lookAtSchema {
		return e.querier.QueryRow(ctx, "SELECT $1::text IS NOT NULL, 1, 0, 1, ''", args...)
	}
	return e.querier.QueryRow(ctx, query, args...)
}

func TestTablesMadeBetweenTwoLooksAreNoDamage(t *testing.T) {
	t.Parallel()
	tier := open1(t, shared(t))
	if _, err := tier.inspect(t.Context(), early{tier.write}); !errors.Is(err, tiers.ErrCorrupt) {
		t.Fatalf("the look is not early: %v", err)
	}
	if err := tier.settle(t.Context(), early{tier.write}); err != nil {
		t.Error(err)
	}
}

// rude answers the address of a server that is about to end: it resets what connects to it.
// TLS is refused before.
func rude(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 8) // of TLS, or the begin of another one
			_, _ = io.ReadFull(c, request)
			if binary.BigEndian.Uint32(request[4:]) == 80877103 {
				_, _ = c.Write([]byte("N"))
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// broken makes the tables in a schema, and answers its name.
func broken(t *testing.T, srv *pgtest.Server) string {
	t.Helper()
	tier, err := Open(t.Context(), Config{URL: srv.URL("postgres"), Schema: "broken"})
	if err != nil {
		t.Fatal(err)
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return "broken"
}

func TestWhatCannotBeUsedIsRefusedAndSaysWhatToDo(t *testing.T) {
	srv := pgtest.Shared(t)
	exec := func(statements string) { srv.Exec(t, "postgres", statements) }
	good := srv.URL("postgres")
	for i, c := range []struct {
		why   string
		setup string
		c     Config
		is    error
		says  []string
	}{
		{"no URL", "", Config{}, tiers.ErrUnsupported, []string{"set postgres.url"}},
		{"no URL of PostgreSQL", "", Config{URL: "mysql://u:hunter2@h/d"}, nil, []string{"postgres://user@host"}},
		{"a port that is none", "", Config{URL: "postgres://u:hunter2@h:port/d"}, nil, []string{"postgres://user@host"}},
		{"nobody listens", "", Config{URL: "postgres://u:hunter2@127.0.0.1:1/d"}, tiers.ErrUnavailable, []string{"127.0.0.1:1/d runs"}},
		{"no such database", "", Config{URL: srv.URL("nothing")}, tiers.ErrUnavailable, []string{"createdb"}},
		{"no such account", "", Config{URL: strings.Replace(good, pgtest.User+"@", "stranger:hunter2@", 1)}, tiers.ErrUnavailable, []string{"check user"}},
		{"no TLS where it is asked for", "", Config{URL: strings.Replace(good, "disable", "require", 1)}, tiers.ErrUnavailable, []string{"sslmode"}},
		{"one that ends every connection, though TLS may be left out", "", Config{URL: "postgres://u:hunter2@" + rude(t) + "/d?sslmode=prefer"}, tiers.ErrUnavailable, []string{"/d runs and may be reached"}},
		{"a schema that has to be quoted", "", Config{URL: good, Schema: "Mine"}, nil, []string{`schema is "Mine"`}},
		{"a schema of PostgreSQL's", "", Config{URL: good, Schema: "pg_mine"}, nil, []string{"pg_"}},
		{"too many connections", "", Config{URL: good, Pool: 5000}, nil, []string{"pool is 5000"}},
		{"a schema of another application", "CREATE SCHEMA theirs; CREATE TABLE theirs.users ()", Config{URL: good, Schema: "theirs"}, tiers.ErrUnsupported, []string{"another application", "users", "postgres.schema"}},
		{
			"a schema of which a table is gone", "DROP TABLE " + broken(t, srv) + ".sessions CASCADE",
			Config{URL: good, Schema: "broken"},
			tiers.ErrCorrupt,
			[]string{"1 of the 10 tables", "ALTER SCHEMA broken RENAME TO broken_damaged"},
		},
		{
			"a schema that was emptied", "CREATE TABLE broken.sessions (); DELETE FROM broken.sagestore_migrations",
			Config{URL: good, Schema: "broken"},
			tiers.ErrCorrupt,
			[]string{"emptied", "ALTER SCHEMA broken RENAME TO broken_damaged"},
		},
		{
			"a read-only account", "CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on",
			Config{URL: strings.Replace(good, pgtest.User+"@", "reader@", 1)},
			tiers.ErrReadOnly,
			[]string{"read-only", "primary"},
		},
		{
			"an account that may make nothing", "CREATE ROLE poor LOGIN",
			Config{URL: strings.Replace(good, pgtest.User+"@", "poor@", 1), Schema: "poor"},
			tiers.ErrReadOnly,
			[]string{"schema poor", "CREATE on the database"},
		},
		{"another encoding", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'", Config{URL: srv.URL("latin")}, tiers.ErrUnsupported, []string{"LATIN1", "UTF8"}},
	} {
		if c.setup != "" {
			for statement := range strings.SplitSeq(c.setup, ";") {
				exec(statement)
			}
		}
		tier, err := Open(t.Context(), c.c)
		if err == nil {
			t.Errorf("%d: %s: it opens", i, c.why)
			_ = tier.Close(t.Context())
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", c.why, err, c.is)
		}
		for _, text := range append(c.says, "open") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v does not say %q", c.why, err, text)
			}
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is shown: %v", c.why, err)
		}
	}
}

func TestNewerOrBrokenTablesAreRefusedUnchanged(t *testing.T) {
	c := shared(t)
	c.Schema = "versions"
	srv := pgtest.Shared(t)
	if err := open1(t, c).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused := func(why string, is error) {
		t.Helper()
		if _, err := Open(t.Context(), c); !errors.Is(err, is) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v, want %v", why, err, is)
		}
	}
	srv.Exec(t, "postgres", "INSERT INTO versions.sagestore_migrations (version_id, is_applied) VALUES (999, true)")
	refused("a newer version has made them", tiers.ErrSchema)
	srv.Exec(t, "postgres", "DELETE FROM versions.sagestore_migrations WHERE version_id = 999")
	srv.Exec(t, "postgres", "ALTER TABLE versions.recent RENAME TO something")
	refused("a table is gone", tiers.ErrCorrupt)
	srv.Exec(t, "postgres", "ALTER TABLE versions.something RENAME TO recent")
	open1(t, c)
}

func TestServerIsJudgedByWhatItSays(t *testing.T) {
	good := server{number: 150000, encoding: "UTF8", syncs: true}
	if err := good.check("h"); err != nil {
		t.Error(err)
	}
	for why, c := range map[string]struct {
		change func(*server)
		is     error
	}{
		"too old":   {func(s *server) { s.number = 120017 }, tiers.ErrUnsupported},
		"a replica": {func(s *server) { s.replica = true }, tiers.ErrReadOnly},
		"read-only": {func(s *server) { s.readOnly = true }, tiers.ErrReadOnly},
		"not UTF-8": {func(s *server) { s.encoding = "SQL_ASCII" }, tiers.ErrUnsupported},
	} {
		s := good
		c.change(&s)
		if err := s.check("h"); !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", why, err, c.is)
		}
	}
}

func TestReplicaIsNoPrimary(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t, pgtest.Config{NoSync: true})
	c := Config{URL: srv.URL("postgres")}
	if err := open1(t, c).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Stop(t)
	if err := srv.Make("standby.signal"); err != nil {
		t.Fatal(err)
	}
	srv.Restart(t)
	if _, err := Open(t.Context(), c); !errors.Is(err, tiers.ErrReadOnly) || !strings.Contains(err.Error(), "primary") {
		t.Errorf("a replica answers %v, want ErrReadOnly", err)
	}
}

func TestPasswordAndCertificateAreChecked(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	srv := pgtest.Start(t, pgtest.Config{NoSync: true})
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	out, err := exec.CommandContext(t.Context(), openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
		"-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"server.crt", "server.key"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(srv.Make(name), srv.Append(name, string(text))); err != nil {
			t.Fatal(err)
		}
	}
	srv.Exec(t, "postgres", "CREATE ROLE app LOGIN PASSWORD 'p$ss #:word' SUPERUSER")
	err = errors.Join(srv.Append("postgresql.conf", "ssl=on\n"),
		srv.Replace("pg_hba.conf", "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\nhost all sage 127.0.0.1/32 trust\n"))
	if err != nil {
		t.Fatal(err)
	}
	srv.Reload(t)
	url := func(password, host, query string) string {
		_, port, _ := strings.Cut(srv.Addr(), ":")
		return "postgres://app:" + password + "@" + host + ":" + port + "/postgres?" + query
	}
	const right = "p%24ss%20%23%3Aword"
	for _, c := range []struct {
		why, url string
		says     string // "": it opens
	}{
		{"the right password and certificate", url(right, "localhost", "sslmode=verify-full&sslrootcert="+certificate), ""},
		{"encrypted, whoever it is", url(right, "127.0.0.1", "sslmode=require"), ""},
		{"the wrong password", url("wrong", "localhost", "sslmode=require"), "check user, password"},
		{"a certificate of nobody that is known", url(right, "localhost", "sslmode=verify-full"), "unknown authority"},
		{"a certificate for another name", url(right, "127.0.0.1", "sslmode=verify-full&sslrootcert="+certificate), "another name"},
		{"no encryption where the server wants it", url(right, "127.0.0.1", "sslmode=disable"), "pg_hba.conf"},
	} {
		tier, err := open(t.Context(), Config{URL: c.url})
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.why, err)
		case c.says != "" && (!errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want it to say %q", c.why, err, c.says)
		case err == nil:
		case strings.Contains(err.Error(), "#:word") || strings.Contains(err.Error(), right):
			t.Errorf("%s: the password is shown: %v", c.why, err)
		}
		if err == nil {
			_ = tier.Close(t.Context())
		}
	}
}

// What a pooler does to statements that were prepared is done here by hand.
func TestPoolerThatForgetsStatementsIsNamed(t *testing.T) {
	c := shared(t)
	c.Pool = 1
	tier := open1(t, c)
	load := func() error { _, err := tier.Load(t.Context(), named("k")); return err }
	if err := load(); !errors.Is(err, tiers.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := tier.read.Exec(t.Context(), "DEALLOCATE ALL"); err != nil {
		t.Fatal(err)
	}
	if err := load(); !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "postgres.pooler: true") {
		t.Errorf("it answers %v, want it to name the pooler", err)
	}
	c.Pooler = true
	tier = open1(t, c)
	for range 3 {
		if err := load(); !errors.Is(err, tiers.ErrNotFound) {
			t.Errorf("behind a pooler: %v", err)
		}
		if _, err := tier.read.Exec(t.Context(), "DEALLOCATE ALL; RESET ALL"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSystemBehindAPooler(t *testing.T) {
	t.Parallel()
	tiertest.RunSystem(t, opener(t, true, false))
}

func TestRecordsExpireByTheServersClock(t *testing.T) {
	c := shared(t)
	// A machine whose clock is an hour behind, and one whose clock is an hour ahead.
	tier := open1(t, c)
	r := record("k", "v")
	r.TTL = 300 * time.Millisecond
	saved, err := tier.Save(t.Context(), r, tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	var now time.Time
	if err := tier.read.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	if left := saved.Expires.Sub(now); left > 300*time.Millisecond || left < -5*time.Second {
		t.Errorf("it expires in %v of the server's time", left)
	}
	clock := tiers.SystemClock()
	for deadline := clock.Now().Add(20 * time.Second); clock.Now().Before(deadline); _ = clock.Sleep(t.Context(), 10*time.Millisecond) {
		if _, err = tier.Load(t.Context(), named("k")); err != nil {
			break
		}
	}
	if !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("it does not expire: %v", err)
	}
	if n, err := tier.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("the sweep removes %d with %v", n, err)
	}
}

func TestPlainJSONCanBeReadWithSQL(t *testing.T) {
	c := shared(t)
	tier := open1(t, c)
	for _, r := range []tiers.Record{
		{Key: named("json"), Value: []byte(`{"theme":"dark"}`), Codec: "json"},
		{Key: named("nul"), Value: []byte(`{"theme":"\u0000"}`), Codec: "json"},
		{Key: named("half"), Value: []byte(`{"theme":"\ud800"}`), Codec: "json"},
		{Key: named("broken"), Value: []byte(`{"theme":`), Codec: "json"},
		{Key: named("binary"), Value: []byte{0, 0xff}, Codec: "raw"},
		{Key: named("expired"), Value: []byte(`{}`), Codec: "json", TTL: time.Microsecond},
	} {
		if _, err := tier.Save(t.Context(), r, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	got := pgtest.Shared(t).Exec(t, "postgres", "SELECT key, value->>'theme', expires FROM "+c.Schema+".documents")
	if got != "json|dark|" {
		t.Errorf("the view says %q", got)
	}
}

func TestFindingsOfAServer(t *testing.T) {
	c := shared(t) // which does not sync
	tier := open1(t, c)
	bad := 0
	for _, f := range tier.Diagnose(context.Background()) {
		if !f.OK {
			bad++
			if f.Subject != "writes" || !strings.Contains(f.Message, "fsync") {
				t.Errorf("%s: %s", f.Subject, f.Message)
			}
		}
	}
	if bad != 1 {
		t.Errorf("%d findings, want the one of fsync", bad)
	}
}

func TestAnAccountThatMayOnlyReadIsFound(t *testing.T) {
	c := shared(t)
	c.Schema = "onlyread"
	srv := pgtest.Shared(t)
	if err := open1(t, c).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"CREATE ROLE onlooker LOGIN", "GRANT USAGE ON SCHEMA onlyread TO onlooker",
		"GRANT SELECT ON ALL TABLES IN SCHEMA onlyread TO onlooker", "GRANT SELECT ON ALL SEQUENCES IN SCHEMA onlyread TO onlooker",
	} {
		srv.Exec(t, "postgres", s)
	}
	c.URL = strings.Replace(c.URL, pgtest.User+"@", "onlooker@", 1)
	tier := open1(t, c)
	account := func() tiers.Finding {
		t.Helper()
		fs := tier.Diagnose(t.Context())
		i := slices.IndexFunc(fs, func(f tiers.Finding) bool { return f.Subject == "account" })
		if i < 0 {
			t.Fatalf("no finding about the account: %v", fs)
		}
		return fs[i]
	}
	f := account()
	if f.OK || !strings.Contains(f.Message, "onlooker") || !strings.Contains(f.Message, "records") || !strings.Contains(f.Message, "version") {
		t.Errorf("of an account that may only read it says %+v", f)
	}
	for hint := range strings.SplitSeq(strings.TrimPrefix(f.Hint, "as the owner: "), "; ") {
		srv.Exec(t, "postgres", hint)
	}
	if f = account(); !f.OK {
		t.Errorf("after its hint was followed it says %+v", f)
	}
	if _, err := tier.Save(t.Context(), tiers.Record{Key: named("k"), Value: []byte("1"), Codec: "json"}, tiers.Cond{}); err != nil {
		t.Errorf("after its hint was followed a save answers %v", err)
	}
}
