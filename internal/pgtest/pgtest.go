// Package pgtest runs real PostgreSQL servers for tests.
//
//	srv := pgtest.Shared(t)          // one for the whole test binary
//	url := srv.URL("postgres")       // each test uses a schema or a database of its own
//
//	own := pgtest.Start(t, pgtest.Config{})
//	own.Kill() // SIGKILL of the postmaster
//	own.Restart()
//
// A server listens on a free loopback port, keeps its data in a directory of its
// own, and ends with the test or with the test binary, however that ends. Where
// PostgreSQL is not installed a test is skipped, unless CI=true is set: then it
// fails.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// patience bounds every wait for a server; it is generous, because a busy
// machine is not what a test is about.
const patience = 60 * time.Second

// User is the superuser of every server. No password is asked for.
const User = "sage"

// Config says how a server runs.
type Config struct {
	NoSync   bool     // what was acknowledged need not survive a power cut
	Settings []string // such as "max_connections=10"
}

// Server is a PostgreSQL server. Its methods are for one goroutine, and fail the
// test when they can't do their work.
type Server struct {
	bin, dir string
	owner    *syscall.Credential // nil: who the test runs as
	port     int
	// The shell that runs the server starts it again for a line that it reads, and
	// ends it and removes its directory when nobody can write any more.
	commands *os.File
}

// Installed tells whether there is a PostgreSQL server to start.
func Installed() bool { return binaries() != "" }

// binaries answers the directory of the newest server that Debian has installed,
// or that is found by PATH.
func binaries() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err == nil && len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return versionIn(a) - versionIn(b) })
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

func versionIn(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
}

// Need skips a test for which no server is installed, or fails it with CI=true.
func Need(tb testing.TB) {
	tb.Helper()
	switch {
	case Installed():
	case os.Getenv("CI") == "true":
		tb.Fatal("a PostgreSQL server is needed: install the package postgresql")
	default:
		tb.Skip("PostgreSQL is not installed")
	}
}

//nolint:gochecknoglobals // one server for a test binary, whose packages share nothing else
var shared = sync.OnceValues(func() (*Server, error) { return Run(Config{NoSync: true}) })

// Shared answers the server that all tests of the binary share. Its data need not
// survive a power cut.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	Need(tb)
	s, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Variable tells processes that a test starts where the server of the test is.
const Variable = "SAGESTORE_TEST_POSTGRES_URL"

// SharedURL answers a URL of the server of [Shared], for what has no test at hand. In a
// process that a test has started it is the one of that test.
func SharedURL() (string, error) {
	if url := os.Getenv(Variable); url != "" {
		return url, nil
	}
	s, err := shared()
	if err != nil {
		return "", err
	}
	url := s.URL("postgres")
	return url, os.Setenv(Variable, url)
}

// Start starts a server that ends with the test.
func Start(tb testing.TB, c Config) *Server {
	tb.Helper()
	Need(tb)
	s, err := Run(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.End)
	return s
}

// Run starts a server outside of a test. It ends with the process, or by End.
func Run(c Config) (*Server, error) {
	bin := binaries()
	if bin == "" {
		return nil, errors.New("no PostgreSQL server is installed")
	}
	owner, err := account()
	if err != nil {
		return nil, err
	}
	// Another process may take the port between freePort and the start.
	for attempt := 1; ; attempt++ {
		s := &Server{bin: bin, owner: owner}
		if err := s.begin(c); err == nil || attempt == 5 {
			return s, err
		}
	}
}

// begin makes a server in a directory of its own, which has gone after an error.
func (s *Server) begin(c Config) (err error) {
	if s.dir, err = os.MkdirTemp("", "pgtest"); err != nil {
		return err
	}
	if err = s.make(c); err == nil {
		if s.port, err = freePort(); err == nil {
			return s.run() // which removes it when it fails
		}
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// make makes the files of a new server.
func (s *Server) make(c Config) error {
	owner := s.owner
	if owner != nil {
		if err := os.Chown(s.dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", User, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C") //nolint:gosec,noctx // the test's own server
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: owner}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	settings := append([]string{
		"listen_addresses='127.0.0.1'", "unix_socket_directories='" + s.dir + "'", "max_connections=200",
		"shared_buffers=32MB", "max_connections=300", "log_min_messages=warning", "autovacuum_naptime=10s", "timezone=UTC",
	}, c.Settings...)
	if c.NoSync {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	return s.Append("postgresql.conf", strings.Join(settings, "\n")+"\n")
}

const script = `
run() { "$0/postgres" -D "$1/data" -p "$2" >>"$1/log" 2>&1 </dev/null & }
run "$@"
while read -r line; do wait; run "$@"; done
kill -QUIT $(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) 2>/dev/null
wait
rm -rf "$1"
`

func (s *Server) run() error {
	in, commands, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", script, s.bin, s.dir, strconv.Itoa(s.port)) //nolint:gosec,noctx // see Server
	cmd.Stdin, cmd.Dir = in, s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true} // so that an interrupt leaves the shell to tidy up
	if err := cmd.Start(); err != nil {
		return errors.Join(err, in.Close(), commands.Close())
	}
	s.commands = commands
	if err := in.Close(); err != nil {
		return err
	}
	return s.await()
}

// await waits until the server takes connections.
func (s *Server) await() error {
	clock := tiers.SystemClock()
	for deadline := clock.Now().Add(patience); ; {
		out, err := s.psql("postgres", "SELECT 1")
		if err == nil {
			return nil
		}
		if clock.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.End()
			return fmt.Errorf("PostgreSQL does not start: %w: %s: %s", err, out, log)
		}
		_ = clock.Sleep(context.Background(), 20*time.Millisecond)
	}
}

// End ends the server at once and waits until its files are gone.
func (s *Server) End() {
	_ = s.commands.Close()
	_ = wait(func() bool { _, err := os.Stat(s.dir); return err != nil })
}

// URL answers the URL of a database of the server, reached by TCP.
func (s *Server) URL(database string) string {
	return "postgres://" + User + "@" + s.Addr() + "/" + database + "?sslmode=disable"
}

// Addr answers the address of the TCP port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Dir answers the directory of the server's sockets; its data is in data below.
func (s *Server) Dir() string { return s.dir }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Append writes a text at the end of a file of the server's data directory, such as
// postgresql.conf.
func (s *Server) Append(name, text string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), name), os.O_WRONLY|os.O_APPEND, 0) //nolint:gosec // the test's own server
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Make makes an empty file in the server's data directory, which nobody else can read.
func (s *Server) Make(name string) error {
	path := filepath.Join(s.data(), name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // as above
	if err != nil {
		return err
	}
	err = f.Close()
	if s.owner != nil {
		err = errors.Join(err, os.Chown(path, int(s.owner.Uid), int(s.owner.Gid)))
	}
	return err
}

// Replace replaces a file of the server's data directory, whose owner and mode it
// keeps.
func (s *Server) Replace(name, text string) error {
	if err := os.Truncate(filepath.Join(s.data(), name), 0); err != nil {
		return err
	}
	return s.Append(name, text)
}

// Exec runs statements with psql and answers what they say: values of a row
// separated by "|", a row in a line.
func (s *Server) Exec(tb testing.TB, database, statements string) string {
	tb.Helper()
	out, err := s.psql(database, statements)
	if err != nil {
		tb.Fatalf("psql: %v: %s", err, out)
	}
	return out
}

func (s *Server) psql(database, statements string) (string, error) {
	cmd := exec.Command(filepath.Join(s.bin, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", s.dir, "-p", strconv.Itoa(s.port), "-U", User, "-d", database) //nolint:gosec,noctx // as above
	cmd.Stdin = strings.NewReader(statements)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

// Reload lets the server read its configuration again.
func (s *Server) Reload(tb testing.TB) {
	tb.Helper()
	s.Exec(tb, "postgres", "SELECT pg_reload_conf()")
}

// Kill ends the postmaster with SIGKILL and waits until all of the server is gone.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.stop(tb, syscall.SIGKILL)
}

// Stop ends the server as an operator does who does not wait for its clients.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.stop(tb, syscall.SIGINT)
}

func (s *Server) stop(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := s.Shut(sig); err != nil {
		tb.Fatal(err)
	}
}

// Shut ends the server by a signal to the postmaster, outside of a test, and waits
// until all of it is gone: SIGINT ends the sessions first, SIGQUIT leaves that to the
// recovery of the next start.
func (s *Server) Shut(sig syscall.Signal) error {
	pid, err := s.postmaster()
	if err != nil {
		return err
	}
	children := childrenOf(pid)
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	if err := wait(func() bool { return !slices.ContainsFunc(append(children, pid), runs) }); err != nil {
		return fmt.Errorf("pgtest: the server does not end: %w", err)
	}
	return nil
}

// Freeze stops all processes of the server with SIGSTOP: the kernel still takes
// connections and bytes, nobody answers. Thaw lets them go on.
func (s *Server) Freeze(tb testing.TB) {
	tb.Helper()
	s.signalAll(tb, syscall.SIGSTOP)
}

// Thaw ends a Freeze.
func (s *Server) Thaw(tb testing.TB) {
	tb.Helper()
	s.signalAll(tb, syscall.SIGCONT)
}

func (s *Server) signalAll(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	pid := s.pid(tb)
	for _, p := range append([]int{pid}, childrenOf(pid)...) {
		if err := syscall.Kill(p, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			tb.Fatalf("pgtest: %v", err)
		}
	}
}

// Restart starts a server again that has ended.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.Again(); err != nil {
		tb.Fatal(err)
	}
}

// Again is Restart outside of a test.
func (s *Server) Again() error {
	if _, err := io.WriteString(s.commands, "\n"); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	return s.await()
}

func (s *Server) pid(tb testing.TB) int {
	tb.Helper()
	pid, err := s.postmaster()
	if err != nil {
		tb.Fatal(err)
	}
	return pid
}

func (s *Server) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("pgtest: the server does not run: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(line)
}

func wait(done func() bool) error {
	clock := tiers.SystemClock()
	for deadline := clock.Now().Add(patience); !done(); _ = clock.Sleep(context.Background(), 2*time.Millisecond) {
		if clock.Now().After(deadline) {
			return fmt.Errorf("nothing for %v", patience)
		}
	}
	return nil
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(fmt.Errorf("listening on %s", l.Addr()), l.Close())
	}
	return addr.Port, l.Close()
}
