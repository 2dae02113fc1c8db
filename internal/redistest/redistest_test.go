package redistest_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ping sends PING to a TCP address and answers the reply's line.
func ping(addr string, timeout time.Duration) (string, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(tiers.SystemClock().Now().Add(timeout)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprint(c, "PING\r\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

func TestServerKeepsPortAndDataOverRestart(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	addr := s.Addr()
	s.Do("SET", "k", "v")
	s.Kill()
	if _, err := ping(addr, time.Second); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Restart()
	if s.Addr() != addr {
		t.Errorf("address is %s, was %s", s.Addr(), addr)
	}
	if got := s.Do("GET", "k"); got != "$1\r\nv\r\n" {
		t.Errorf("value after the restart is %q", got)
	}
	s.Stop()
	s.Restart()
	if got := s.Do("GET", "k"); got != "$1\r\nv\r\n" {
		t.Errorf("value after the second restart is %q", got)
	}
}

func TestFrozenServerIsSilentUntilThawed(t *testing.T) {
	s := redistest.Start(t)
	s.Freeze()
	if got, err := ping(s.Addr(), 100*time.Millisecond); err == nil {
		t.Errorf("a frozen server answered %q", got)
	}
	s.Thaw()
	if got, err := ping(s.Addr(), 10*time.Second); err != nil || got != "+PONG\r\n" {
		t.Errorf("a thawed server answered %q, %v", got, err)
	}
}

func TestServerWithPasswordCountsAsStarted(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	if got, err := ping(s.Addr(), 10*time.Second); err != nil || !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("answer is %q, %v", got, err)
	}
}

func TestProxyLosesRepliesAndConnections(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	if got, err := ping(p.Addr(), 10*time.Second); err != nil || got != "+PONG\r\n" {
		t.Fatalf("answer through the proxy is %q, %v", got, err)
	}
	p.Swallow(true)
	if got, err := ping(p.Addr(), 100*time.Millisecond); err == nil {
		t.Errorf("a swallowed reply came through: %q", got)
	}
	p.Swallow(false)

	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(tiers.SystemClock().Now().Add(10 * time.Second))
	_, _ = fmt.Fprint(c, "PING\r\n")
	r := bufio.NewReader(c)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.Refuse(true)
	if _, err := r.ReadString('\n'); err == nil {
		t.Error("the connection lives although the proxy refuses")
	}
	if got, err := ping(p.Addr(), 10*time.Second); err == nil {
		t.Errorf("a refused connection answered %q", got)
	}
	p.Refuse(false)
	if got, err := ping(p.Addr(), 10*time.Second); err != nil || got != "+PONG\r\n" {
		t.Errorf("answer after the refusal is %q, %v", got, err)
	}
}
