package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	every "github.com/sagestore/sagestore/tiers/all"
)

// loadingChild restores a store on PostgreSQL, which it reaches through itself, and kills
// itself at a step: when it says something to the server from when the files are
// swapped on, or while it unpacks.
func loadingChild(ctx context.Context) error {
	e := engines{dir: os.Getenv("SAGESTORE_TEST_DIR"), url: os.Getenv("SAGESTORE_TEST_URL"), schema: os.Getenv("SAGESTORE_TEST_SCHEMA")}
	k := killing{phrase: os.Getenv("SAGESTORE_TEST_PHRASE"), sent: os.Getenv("SAGESTORE_TEST_SENT") == "true", place: loadedFrom(e), parts: map[string]bool{}}
	at, err := strconv.Atoi(os.Getenv("SAGESTORE_TEST_AT"))
	if err != nil {
		return err
	}
	k.left.Store(int64(at))
	u, err := url.Parse(e.url)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go k.accept(ctx, l, u.Host)
	u.Host = l.Addr().String()
	e.url = u.String()
	b, err := manager.OpenBackups(ctx, e.config("postgres"), every.Tiers())
	if err != nil {
		return err
	}
	_, err = b.Restore(ctx, backup.Latest, manager.RestoreOptions{Stopped: true, Progress: k.unpacks})
	return errors.Join(err, b.Close())
}

const (
	unpacking   = "unpacking" // instead of a phrase: before anything is decided
	loadTelling = 150         // no more is said to the server
)

// loadedFrom is the copy that a decided restore loads.
func loadedFrom(e engines) string { return filepath.Join(e.dir, "restoring.postgres") }

// killing is between the child and the server, and counts what the server is told.
type killing struct {
	phrase string // only what has it counts
	sent   bool   // the server is told before the kill
	place  string // what is loaded; it counts from when that is there on
	parts  map[string]bool
	left   atomic.Int64
	deaf   atomic.Bool // it is told that, and hears nothing any more
}

func (k *killing) accept(ctx context.Context, l net.Listener, target string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		go pass(client, server, k.hears)
		go pass(server, client, k.says)
	}
}

// pass copies from one to the other what do has seen, and calls then what do has answered.
func pass(to, from net.Conn, do func(b []byte) (after func())) {
	defer func() { _, _ = to.Close(), from.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		after := do(b[:n])
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
		after()
	}
}

func (k *killing) says(b []byte) (after func()) {
	if !k.counts(b) {
		return func() {}
	}
	if !k.sent {
		die()
	}
	k.deaf.Store(true) // the server may answer before the kill
	return die
}

func (k *killing) hears([]byte) (after func()) {
	if k.deaf.Load() {
		select {}
	}
	return func() {}
}

// counts tells whether it is time.
func (k *killing) counts(said []byte) bool {
	if _, err := os.Lstat(k.place); err != nil || !strings.Contains(string(said), k.phrase) {
		return false
	}
	return k.left.Add(-1) == 0
}

// unpacks is told of the progress.
func (k *killing) unpacks(p backup.Progress) {
	if k.phrase == unpacking && p.Step == "restore" && !k.parts[p.Part] {
		if k.parts[p.Part] = true; k.left.Add(-1) == 0 {
			die()
		}
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// load runs a child, and tells whether it was killed.
func (e engines) load(t testing.TB, k loadKill) (killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=load", "SAGESTORE_TEST_DIR="+e.dir, "SAGESTORE_TEST_URL="+e.url, "SAGESTORE_TEST_SCHEMA="+e.schema,
		"SAGESTORE_TEST_PHRASE="+k.phrase, "SAGESTORE_TEST_AT="+strconv.Itoa(k.at), "SAGESTORE_TEST_SENT="+strconv.FormatBool(k.sent))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s: %v\n%s", k.why, err, out)
	}
	return true
}

// loadKill is where a restore is killed.
type loadKill struct {
	why    string
	phrase string // of what the server is told, or unpacking
	at     int    // the how manieth time
	sent   bool   // the server is told that, but its answer is not heard
	stays  bool   // nothing is decided yet
	rare   bool   // only with SAGESTORE_KILLS
}

// loadKills are the steps of a restore of a store on PostgreSQL.
func loadKills() []loadKill {
	return []loadKill{
		{why: "while it unpacks the first part", phrase: unpacking, at: 1, stays: true, rare: true},
		{why: "while it unpacks the last one", phrase: unpacking, at: 2, stays: true},
		{why: "the files are swapped, and the server knows of nothing", at: 1},
		{why: "there is a schema beside, with nothing in it", phrase: "CREATE SCHEMA", at: 1, sent: true, rare: true},
		{why: "while the records are loaded", phrase: "COPY ", at: 2},
		{why: "all is loaded, and nobody has counted it", phrase: "\vcommit", at: 3, sent: true, rare: true},
		{why: "before the schemas are switched", phrase: "RENAME TO ", at: 1, rare: true},
		{why: "between the two renames", phrase: "RENAME TO ", at: 2},
		{why: "both are renamed, and that is not committed", phrase: "\vcommit", at: 4, rare: true},
		{why: "that is committed, and the answer is not heard", phrase: "\vcommit", at: 4, sent: true},
		{why: "the schemas are switched, and the copy is still there", phrase: "pg_advisory_unlock", at: 1, sent: true},
	}
}

func TestKillOfARestoreToPostgresLeavesTheOldStoreOrTheNewOne(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	_, want := e.backedUp(t)
	was := e.holdings(t, "postgres")
	all := loadKills()
	if os.Getenv("SAGESTORE_KILLS") == "" {
		all = slices.DeleteFunc(all, func(k loadKill) bool { return k.rare })
	} else { // whatever it says to the server
		for at := 2; at <= 2*loadTelling; at++ {
			all = append(all, loadKill{why: fmt.Sprint("at number ", at/2, " of what it says"), at: at / 2, sent: at%2 == 1})
		}
	}
	said := 0
	for _, k := range all {
		kept := e.beside(t, "old")
		killed := e.load(t, k)
		if !killed && k.at > loadTelling/2 && k.phrase == "" {
			break
		}
		if said = max(said, k.at); !killed {
			t.Fatalf("%s: it was not killed", k.why)
		}
		if restored := e.isWhole(t, k, kept, was, want); restored {
			e.change(t)
			was = e.holdings(t, "postgres")
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, up to number %d of what it says", len(all), said)
	if e.load(t, loadKill{phrase: "nothing has this", at: 1}) {
		t.Fatal("it was killed")
	}
	equalRestored(t, e.holdings(t, "postgres"), want, "when it was not killed")
	e.filesAreBack(t)
}

// isWhole opens the store after a kill, and tells whether it is the one of the backup
// then. The files and the database must agree about that.
func (e engines) isWhole(t *testing.T, k loadKill, kept int, was, want holdings) (restored bool) {
	t.Helper()
	decided := false
	for _, path := range []string{loadedFrom(e), filepath.Join(e.dir, "restore.json")} {
		_, err := os.Lstat(path)
		decided = decided || err == nil
	}
	if decided == k.stays {
		t.Errorf("%s: that it happens is decided: %v", k.why, decided)
	}
	for tries := 0; ; tries++ {
		m, err := manager.Open(t.Context(), e.config("postgres"), every.Tiers(), manager.WithoutJobs())
		if err == nil {
			closeNow(t, m)
			break
		}
		if !errors.Is(err, tiers.ErrUnavailable) || tries == 3000 { // the server ends a session a little later
			t.Fatalf("%s: %v", k.why, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	got := e.holdings(t, "postgres")
	if restored = got.Facts["epoch"] != was.Facts["epoch"]; restored {
		equalRestored(t, got, want, k.why)
		e.filesAreBack(t)
	} else {
		equalHoldings(t, got, was, k.why)
		m := e.open(t, "postgres")
		defer closeNow(t, m)
		if ok := value[bool](t)(m.Exists(t.Context(), "app.file", "since")); !ok {
			t.Errorf("%s: the files are those of the backup, and the database is not", k.why)
		}
	}
	if restored != decided {
		t.Errorf("%s: that it happens was decided: %v, and it did: %v", k.why, decided, restored)
	}
	if _, err := os.Lstat(loadedFrom(e)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: it would be loaded again: %v", k.why, err)
	}
	if n := e.beside(t, "new"); n != 0 {
		t.Errorf("%s: %d schemas are left of it", k.why, n)
	}
	// What was there before is kept once, and nothing else is.
	if n := e.beside(t, "old"); (n == kept+1) != restored || n > kept+1 {
		t.Errorf("%s: %d schemas were kept, and now %d are", k.why, kept, n)
	}
	return restored
}

// beside counts the schemas beside the store's.
func (e engines) beside(t *testing.T, what string) (n int) {
	t.Helper()
	said := pgtest.Shared(t).Exec(t, "postgres", "SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, '"+e.schema[:min(len(e.schema), 34)]+"_"+what+"_')")
	return value[int](t)(strconv.Atoi(strings.TrimSpace(said)))
}
