package backup

import (
	"crypto/sha256"
	"hash"
)

// hashChunk is how much is handed to a hashing at once.
const hashChunk = 256 << 10

// hashing is a SHA-256 that is computed beside what writes to it. It has a goroutine from
// the first byte on, which sum ends; so sum is called in any case.
type hashing struct {
	h    hash.Hash
	buf  []byte
	full chan []byte // nil: there was no byte yet
	free chan []byte
	over chan struct{}
}

func newHashing() *hashing { return &hashing{h: sha256.New()} }

func (s *hashing) write(p []byte) {
	if s.full == nil && len(p) > 0 {
		s.begin()
	}
	for len(p) > 0 {
		n := copy(s.buf[len(s.buf):cap(s.buf)], p)
		s.buf, p = s.buf[:len(s.buf)+n], p[n:]
		if len(s.buf) == cap(s.buf) {
			s.full <- s.buf
			s.buf = (<-s.free)[:0]
		}
	}
}

func (s *hashing) begin() {
	s.buf = make([]byte, 0, hashChunk)
	s.full, s.free, s.over = make(chan []byte, 1), make(chan []byte, 2), make(chan struct{})
	s.free <- make([]byte, 0, hashChunk)
	go func() {
		defer close(s.over)
		for b := range s.full {
			s.h.Write(b) // never fails
			s.free <- b
		}
	}()
}

// sum answers the hash. Nothing may be written afterwards.
func (s *hashing) sum() []byte {
	if s.full != nil {
		close(s.full)
		<-s.over
		s.h.Write(s.buf) // never fails
		s.full, s.buf = nil, s.buf[:0]
	}
	return s.h.Sum(nil)
}
