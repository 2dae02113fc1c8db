package proxytest_test

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/proxytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers the address of a server that says whatever it is told.
func echo(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
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
			go func() {
				defer func() { _ = c.Close() }()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					if _, err := c.Write([]byte(line)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestProxyLosesWhatItIsTold(t *testing.T) {
	p := proxytest.New(t, echo(t))
	say := func(line string) (string, error) {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
		if err != nil {
			return "", err
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write([]byte(line + "\n")); err != nil {
			return "", err
		}
		return bufio.NewReader(c).ReadString('\n')
	}
	for _, step := range []struct {
		why  string
		tell func()
		want string
		lost int
	}{
		{"nothing is lost", func() {}, "hello\n", 0},
		{"the reply is", func() { p.LoseReply("ell") }, "", 1},
		{"once", func() {}, "hello\n", 1},
		{"another reply is not", func() { p.LoseReply("bye") }, "hello\n", 1},
		{"the request is", func() { p.LoseRequest(3) }, "", 2},
		{"a short one is not", func() { p.LoseRequest(30) }, "hello\n", 2},
		{"the reply and all that follows", func() { p.LoseAllFrom("ell") }, "", 3},
		{"that is to say all", func() {}, "", 3},
		{"nobody is let in", func() { p.Refuse(true) }, "", 3},
		{"and again", func() { p.Refuse(false) }, "hello\n", 3},
		{"the reply is cut short", func() { p.LoseRest(3) }, "hel", 4},
		{"a reply that is short is not", func() { p.LoseRest(30) }, "hello\n", 4},
		{"what was told before is taken back", func() { p.LoseRest(1); p.LoseRequest(1); p.LoseReply("e"); p.Refuse(true); p.Mend() }, "hello\n", 4},
	} {
		step.tell()
		if got, err := say("hello"); got != step.want || (err == nil) != strings.HasSuffix(step.want, "\n") || p.Lost() != step.lost {
			t.Errorf("%s: %q and %v, %d lost", step.why, got, err, p.Lost())
		}
	}
}
