package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

// slot is one connection of a lane, made when it is needed. Flights speak the
// protocol themselves: most of what many small commands cost is in preparing,
// writing and reading them one by one. One goroutine at a time uses it.
type slot struct {
	socket
	hello [][]any // what a new connection begins with

	link net.Conn // nil: to be made
	idle func() bool
	in   *bufio.Reader
	out  []byte
	lost error // of writing
}

func newSlot(o *goredis.Options, secure *tls.Config) *slot {
	s := &slot{}
	s.at(o, secure)
	switch {
	case o.Username != "":
		s.hello = append(s.hello, []any{"auth", o.Username, o.Password})
	case o.Password != "":
		s.hello = append(s.hello, []any{"auth", o.Password})
	}
	// The ping is for servers that refuse a connection only with their first
	// reply: a refused command was not carried out, and nothing else was sent.
	s.hello = append(s.hello, []any{"ping"})
	if o.DB != 0 {
		s.hello = append(s.hello, []any{"select", strconv.Itoa(o.DB)})
	}
	return s
}

// run sends the calls together and reads what the server answers to each, which
// is in its fault then, or in its reply.
func (s *slot) run(within time.Duration, cs []*call) {
	limit := tiers.SystemClock().Now().Add(within)
	if err := s.open(limit); err != nil {
		fail(cs, err)
		return
	}
	for _, c := range cs {
		s.put(c.args)
	}
	err := s.flush()
	for i, c := range cs {
		if err == nil {
			err = readReply(s.in, c)
		}
		if err != nil { // it is about this connection, and so about all that follow
			fail(cs[i:], err)
			s.drop()
			return
		}
	}
}

func fail(cs []*call, err error) {
	for _, c := range cs {
		c.fault = err
	}
}

// open sees to a connection that can be used until limit.
func (s *slot) open(limit time.Time) error {
	if s.link != nil && (s.interrupted() || s.link.SetDeadline(limit) != nil || !s.idle()) {
		s.drop()
	}
	if s.link != nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	s.link, s.idle = c, idleCheck(c)
	if s.in == nil {
		s.in = bufio.NewReaderSize(c, bufferSize)
	}
	s.in.Reset(c)
	if err := s.greet(limit); err != nil {
		s.drop()
		return err
	}
	return nil
}

// greet tells the server who it is. What it refuses, it refuses to all.
func (s *slot) greet(limit time.Time) error {
	if err := s.link.SetDeadline(limit); err != nil {
		return err
	}
	for _, args := range s.hello {
		s.put(args)
	}
	if err := s.flush(); err != nil {
		return err
	}
	for range s.hello {
		var c call
		err := readReply(s.in, &c)
		if err == nil {
			err = c.fault
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop gives the connection up.
func (s *slot) drop() {
	if s.link != nil {
		_ = s.link.Close()
		s.link = nil
	}
	s.out, s.lost = s.out[:0], nil
}

// close ends the slot, which nobody uses any more.
func (s *slot) close() { s.drop() }

// bufferSize is how much is read at once, and from which size on an argument is
// written from where it is.
const bufferSize = 64 << 10

// put writes a command, most of it into the buffer.
func (s *slot) put(args []any) {
	s.out = appendLine(s.out, '*', len(args))
	for _, a := range args {
		switch a := a.(type) {
		case string:
			s.out = append(appendLine(s.out, '$', len(a)), a...)
		case int:
			var digits [20]byte
			text := strconv.AppendInt(digits[:0], int64(a), 10)
			s.out = append(appendLine(s.out, '$', len(text)), text...)
		case []byte:
			s.putBytes(a)
		case *stamp:
			s.putBytes(a.bytes())
		}
		s.out = append(s.out, '\r', '\n')
	}
}

func (s *slot) putBytes(b []byte) {
	s.out = appendLine(s.out, '$', len(b))
	if len(b) < bufferSize {
		s.out = append(s.out, b...)
		return
	}
	s.send(s.out)
	s.out = s.out[:0]
	s.send(b)
}

// flush sends what was put.
func (s *slot) flush() error {
	s.send(s.out)
	if s.out = s.out[:0]; cap(s.out) > 2*maxBytes {
		s.out = nil
	}
	err := s.lost
	s.lost = nil
	return err
}

func (s *slot) send(b []byte) {
	if s.lost == nil {
		_, s.lost = s.link.Write(b)
	}
}

func appendLine(b []byte, kind byte, n int) []byte {
	b = strconv.AppendInt(append(b, kind), int64(n), 10)
	return append(b, '\r', '\n')
}
