//go:build unix

package redis

import (
	"errors"
	"net"
	"syscall"
)

// idleCheck answers a function that tells whether a connection that is not in use
// is still good: the server has not closed it meanwhile, nor said anything. So a
// command is not sent into a connection that is known to be dead.
func idleCheck(c net.Conn) func() bool {
	whole := true
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS, in which servers may say something at any time
		c, whole = t.NetConn(), false
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return func() bool { return true }
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return func() bool { return false }
	}
	var good bool
	var buf [1]byte
	look := func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
		good = quiet || err == nil && n > 0 && !whole
	}
	return func() bool { return raw.Control(look) == nil && good }
}
