package redis

import (
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// serverTime estimates the server's clock. Its own line of time is monotonic
// and real, like the deadlines of contexts; the clock that is injected into a
// tier may stand still.
//
// A reply that holds the server's time T to something that was sent at s and
// answered at r says that the server is ahead by at least T-r and at most T-s.
// The estimate keeps the best lower bound, so that it is never later than the
// server, and gives it up when an upper bound contradicts it: then a clock was
// set, or drifted.
type serverTime struct {
	base time.Time

	mu    sync.Mutex
	known bool
	ahead int64 // lower bound of server minus own time, in microseconds
	slack int64 // of the reply that the bound is from: its time on the way
}

func newServerTime() serverTime {
	return serverTime{base: tiers.SystemClock().Now()}
}

// now is the time on the own line.
func (s *serverTime) now() time.Duration { return time.Since(s.base) }

// at translates an instant of the own line into microseconds of the server.
func (s *serverTime) at(d time.Duration) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.Microseconds() + s.ahead
}

func (s *serverTime) sample(server int64, sent, received time.Duration) {
	low, high := server-received.Microseconds()-1, server-sent.Microseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known || s.ahead > high || low > s.ahead {
		s.known, s.ahead, s.slack = true, low, high-low
	}
}

// estimate is what the server's clock shows now, or slightly later than that.
func (s *serverTime) estimate() (time.Time, bool) {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if !known {
		return time.Time{}, false
	}
	return tiers.FromMicro(s.at(s.now())), true
}

// offset is how far the server's clock is ahead of the own wall clock, and how
// exact that is.
func (s *serverTime) offset() (ahead, slack time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.ahead-s.base.UnixMicro()) * time.Microsecond, time.Duration(s.slack) * time.Microsecond
}
