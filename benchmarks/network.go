package main

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// farAway makes a server answer as from farther away: what goes through the address
// it returns arrives rtt/2 later on each way. Both sides of a comparison use it.
func farAway(ctx context.Context, server string, rtt time.Duration) (addr string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(ctx, "tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			go delay(far, near, rtt/2)
			go delay(near, far, rtt/2)
		}
	}()
	return l.Addr().String(), func() { _ = l.Close() }, nil
}

// delay passes bytes on, each as much later as it came; one end closes the other.
func delay(to, from net.Conn, by time.Duration) {
	type piece struct {
		due   time.Time
		bytes []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if n > 0 {
				pieces <- piece{time.Now().Add(by), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	var err error
	for p := range pieces {
		if err != nil {
			continue // so that the reader ends
		}
		// The runtime's timers are too coarse for a tenth of a millisecond.
		if wait := time.Until(p.due); wait > 0 {
			left := syscall.NsecToTimespec(wait.Nanoseconds())
			_ = syscall.Nanosleep(&left, nil)
		}
		if _, err = to.Write(p.bytes); err != nil && !errors.Is(err, io.EOF) {
			_ = from.Close()
		}
	}
	_ = to.Close()
}
