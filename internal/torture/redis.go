//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// server is a Redis that syncs each write before it answers.
type server struct {
	dir  string
	port int
	cmd  *exec.Cmd
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// running starts the server when it does not run, and waits for it.
func (s *server) running(ctx context.Context, t *torture) error {
	if s == nil {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		s = &server{dir: filepath.Join(t.dir, "redis"), port: port}
		t.redis = s
	}
	if s.cmd == nil {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		cmd := exec.Command("redis-server", "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, //nolint:gosec,noctx // ends by stop
			"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		s.cmd = cmd
	}
	return s.do(ctx, func(c *goredis.Client) error { return c.Ping(ctx).Err() })
}

// do repeats a command until the server answers.
func (s *server) do(ctx context.Context, fn func(*goredis.Client) error) error {
	c := goredis.NewClient(&goredis.Options{Addr: s.addr(), DisableIdentity: true, MaxRetries: -1})
	var err error
	for range 4000 {
		if err = fn(c); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.Join(err, c.Close())
}

// flush removes what the stores before have left.
func (s *server) flush(ctx context.Context) error {
	return s.do(ctx, func(c *goredis.Client) error { return c.FlushAll(ctx).Err() })
}

func (s *server) kill() error {
	err := s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
	s.cmd = nil
	return err
}

func (s *server) freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *server) thaw() error   { return s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *server) stop() error {
	if s == nil || s.cmd == nil {
		return nil
	}
	return s.kill()
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("listening on %s", l.Addr())
	}
	return addr.Port, l.Close()
}
