package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// startRedis starts a server of its own on a free loopback port and answers its
// URL and how to end it; stop may always be called.
func startRedis(ctx context.Context, dir string) (url string, stop func(), err error) {
	stop = func() {}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", stop, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", stop, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return "", stop, err
	}
	home := filepath.Join(dir, "redis")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", stop, err
	}
	cmd := exec.CommandContext(ctx, program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", home, "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		return "", stop, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	url = fmt.Sprintf("redis://127.0.0.1:%d", port)
	c := rawRedis(url)
	defer func() { _ = c.Close() }()
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := c.Ping(ctx).Err()
		if err == nil {
			return url, stop, nil
		}
		if time.Now().After(until) {
			stop()
			return "", func() {}, fmt.Errorf("it did not come up: %w", err)
		}
	}
}

// rawRedis is go-redis as its documentation shows it.
func rawRedis(url string) *redis.Client {
	o, err := redis.ParseURL(url)
	if err != nil {
		panic(err) // it is ours
	}
	return redis.NewClient(o)
}
