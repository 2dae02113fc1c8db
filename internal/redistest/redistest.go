// Package redistest runs real Redis servers for tests.
//
//	srv := redistest.Start(t, "--requirepass", "secret")
//	srv.Freeze() // SIGSTOP: connected, but silent
//	srv.Thaw()
//	srv.Kill() // SIGKILL
//	srv.Restart()
//
// A server listens on a free loopback port and on a unix socket, keeps its
// data in a directory of its own, and ends with the test. A test is skipped
// where redis-server is not installed, unless CI=true is set: then it fails.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
const patience = 20 * time.Second

// Server is a redis-server process. Its methods are for one goroutine, but for
// Freeze and Thaw, and fail the test when they can't do their work.
type Server struct {
	tb   testing.TB
	bin  string
	dir  string
	port int
	args []string

	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
	out *bytes.Buffer
}

// Start starts a server. The arguments are those of redis-server and override
// the defaults, which are a free port, no persistence and one directory.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("redis-server is needed: %v", err)
		}
		tb.Skipf("redis-server is not installed: %v", err)
	}
	// Not tb.TempDir: its path can be too long for a unix socket.
	dir, err := os.MkdirTemp("", "redistest") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{tb: tb, bin: bin, dir: dir, args: args}
	tb.Cleanup(s.end)
	// Another process may take the port between FreePort and the start.
	for attempt := 1; ; attempt++ {
		s.port = FreePort(tb)
		err := s.start()
		if err == nil {
			return s
		}
		if attempt == 5 || !strings.Contains(err.Error(), "in use") {
			tb.Fatal(err)
		}
	}
}

// URL answers redis://127.0.0.1:PORT.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Addr answers the address of the TCP port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Socket answers the path of the unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// SocketURL answers unix://PATH.
func (s *Server) SocketURL() string { return "unix://" + s.Socket() }

// Dir answers the directory of the server's files.
func (s *Server) Dir() string { return s.dir }

// Kill ends the server with SIGKILL and waits for it.
func (s *Server) Kill() {
	s.tb.Helper()
	s.signal(syscall.SIGKILL)
	s.wait()
}

// Stop ends the server with SIGTERM, so that it writes what it persists, and
// waits for it.
func (s *Server) Stop() {
	s.tb.Helper()
	s.signal(syscall.SIGTERM)
	s.wait()
}

// Restart starts a server that ended again, with its port, arguments and data.
func (s *Server) Restart() {
	s.tb.Helper()
	if s.process() != nil {
		s.tb.Fatal("redistest: Restart of a server that runs")
	}
	if err := s.start(); err != nil {
		s.tb.Fatal(err)
	}
}

// Freeze stops the process with SIGSTOP: the kernel still takes connections
// and bytes, nobody answers.
func (s *Server) Freeze() {
	s.tb.Helper()
	s.signal(syscall.SIGSTOP)
	s.poll("stop", func() bool { return stopped(s.process()) })
}

// Thaw lets a frozen process go on.
func (s *Server) Thaw() {
	s.tb.Helper()
	s.signal(syscall.SIGCONT)
}

// Do sends one command on a connection of its own, over the unix socket, and
// answers the raw reply. It knows no passwords.
func (s *Server) Do(args ...string) string {
	s.tb.Helper()
	reply, err := s.do(args...)
	if err != nil {
		s.tb.Fatalf("redistest: %s: %v", args[0], err)
	}
	return reply
}

// FreePort answers a loopback port that nobody listens on at the moment.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("redistest: listening on %s", l.Addr())
	}
	return addr.Port
}

func (s *Server) start() error {
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--unixsocket", s.Socket(), "--unixsocketperm", "700",
		"--daemonize", "no", "--save", "", "--appendonly", "no", "--loglevel", "warning",
	}, s.args...)
	_ = os.Remove(s.Socket()) // of a killed predecessor
	out := new(bytes.Buffer)
	cmd := exec.Command(s.bin, args...) //nolint:gosec,noctx // the test's own server; it ends by its cleanup
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	deadline := tiers.SystemClock().Now().Add(patience)
	for {
		select {
		case <-ended:
			return fmt.Errorf("redis-server did not start: %s", out)
		case <-time.After(2 * time.Millisecond):
		}
		if reply, err := s.do("PING"); err == nil && ready(reply) {
			break
		}
		if tiers.SystemClock().Now().After(deadline) {
			_ = cmd.Process.Kill()
			<-ended
			return fmt.Errorf("redis-server does not answer after %s: %s", patience, out)
		}
	}
	s.mu.Lock()
	s.cmd, s.out = cmd, out
	s.mu.Unlock()
	s.tb.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return nil
}

// ready tells whether the reply to a PING shows a server that has loaded its
// data. One that wants a password is ready.
func ready(reply string) bool {
	return strings.HasPrefix(reply, "+PONG") || strings.HasPrefix(reply, "-NOAUTH")
}

func (s *Server) do(args ...string) (string, error) {
	d := net.Dialer{Timeout: patience}
	c, err := d.DialContext(context.Background(), "unix", s.Socket())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(tiers.SystemClock().Now().Add(patience))
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write(b.Bytes()); err != nil {
		return "", err
	}
	// Replies of the commands that tests send come in one piece, except that
	// bulk strings name their length.
	buf := make([]byte, 1<<16)
	var reply []byte
	for {
		n, err := c.Read(buf)
		reply = append(reply, buf[:n]...)
		if err != nil || whole(reply) {
			return string(reply), err
		}
	}
}

// whole tells whether a reply that is no array has come completely.
func whole(reply []byte) bool {
	line, rest, ok := bytes.Cut(reply, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return false
	}
	if line[0] != '$' {
		return true
	}
	n, err := strconv.Atoi(string(line[1:]))
	return err != nil || n < 0 || len(rest) >= n+2
}

func (s *Server) process() *os.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	return s.cmd.Process
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	p := s.process()
	if p == nil {
		s.tb.Fatalf("redistest: %s: the server does not run", sig)
	}
	if err := p.Signal(sig); err != nil {
		s.tb.Fatalf("redistest: %s: %v", sig, err)
	}
}

// wait returns once the process is gone, so that its port is free again.
func (s *Server) wait() {
	s.tb.Helper()
	s.poll("end", func() bool { return s.process().Signal(syscall.Signal(0)) != nil })
	s.mu.Lock()
	s.cmd = nil
	s.mu.Unlock()
}

func (s *Server) poll(what string, done func() bool) {
	s.tb.Helper()
	for deadline := tiers.SystemClock().Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if tiers.SystemClock().Now().After(deadline) {
			s.tb.Fatalf("redistest: the server did not %s within %s", what, patience)
		}
	}
}

// end makes sure that a frozen server can be killed by its own cleanup.
func (s *Server) end() {
	if p := s.process(); p != nil {
		_ = p.Kill()
	}
}
