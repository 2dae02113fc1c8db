package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Bounce starts a PgBouncer in front of the server, which lends its connections for one
// transaction each, and answers the URL of a database behind it. Settings are such as
// "default_pool_size=2". It ends with the test, however that ends. Where PgBouncer is
// not installed the test is skipped, unless CI=true is set: then it fails.
func (s *Server) Bounce(tb testing.TB, database string, settings ...string) string {
	tb.Helper()
	program := bouncer()
	switch {
	case program != "":
	case os.Getenv("CI") == "true":
		tb.Fatal("PgBouncer is needed: install the package pgbouncer")
	default:
		tb.Skip("PgBouncer is not installed")
	}
	for attempt := 1; ; attempt++ { // another process may take the port meanwhile
		port, err := s.bounce(tb, program, settings)
		if err == nil {
			return "postgres://" + User + "@127.0.0.1:" + strconv.Itoa(port) + "/" + database + "?sslmode=disable"
		}
		if attempt == 5 {
			tb.Fatal(err)
		}
	}
}

// bouncer finds the program, which Debian puts where only administrators look.
func bouncer() string {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

const bouncerScript = `
"$0" "$1/pgbouncer.ini" >>"$1/log" 2>&1 </dev/null &
read -r line
kill -TERM $! 2>/dev/null
wait
rm -rf "$1"
`

// bounce tries to start it, in a directory that is gone when it has ended.
func (s *Server) bounce(tb testing.TB, program string, settings []string) (port int, err error) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "pgbounce") //nolint:usetesting // nobody but root gets into that one
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if port, err = freePort(); err != nil {
		return 0, err
	}
	files := map[string]string{
		"users": `"` + User + `" ""` + "\n",
		"pgbouncer.ini": fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=%s\n[pgbouncer]\n", s.port, User) + strings.Join(append([]string{
			"listen_addr=127.0.0.1", "listen_port=" + strconv.Itoa(port), "unix_socket_dir=", "auth_type=trust", "auth_file=" + filepath.Join(dir, "users"),
			"pool_mode=transaction", "max_client_conn=500", "default_pool_size=20", "server_lifetime=60",
		}, settings...), "\n") + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return 0, err
		}
	}
	if s.owner != nil {
		for _, name := range []string{"", "users", "pgbouncer.ini"} {
			if err := os.Chown(filepath.Join(dir, name), int(s.owner.Uid), int(s.owner.Gid)); err != nil {
				return 0, err
			}
		}
	}
	in, alive, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("/bin/sh", "-c", bouncerScript, program, dir) //nolint:gosec,noctx // as the server itself
	cmd.Stdin, cmd.Dir = in, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_ = in.Close()
	end := func() { _ = alive.Close(); _ = cmd.Wait() }
	// What it says tells it from another program on its port.
	var said []byte
	says := func(what string) bool { return bytes.Contains(said, []byte(what)) }
	err = wait(func() bool {
		said, _ = os.ReadFile(filepath.Join(dir, "log")) //nolint:gosec // the test's own
		return says("process up") || says("FATAL")
	})
	if err != nil || says("FATAL") {
		end()
		return 0, fmt.Errorf("PgBouncer does not start: %s", said)
	}
	tb.Cleanup(end)
	return port, nil
}
