package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/sagestore/sagestore/tiers"
)

// sum is the sum of the SHA-256 of records, modulo 2^256. Records come and go in
// any order and the sum follows without looking at the others. It finds damage.
// It is no signature: who can write the store can make any sum fit.
type sum [4]uint64 //nolint:recvcheck // encoded by value; least significant first

// digest answers the SHA-256 of a part's name and its stored bytes.
func digest(part string, raw []byte) sum {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(part)))
	h.Write(n[:])
	h.Write([]byte(part))
	h.Write(raw)
	var s sum
	b := h.Sum(nil)
	for i := range s {
		s[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	return s
}

func (s *sum) add(o sum) {
	var carry uint64
	for i := range s {
		s[i], carry = bits.Add64(s[i], o[i], carry)
	}
}

func (s *sum) sub(o sum) {
	var borrow uint64
	for i := range s {
		s[i], borrow = bits.Sub64(s[i], o[i], borrow)
	}
}

func (s *sum) bytes() []byte {
	var b [32]byte
	for i := range s {
		binary.BigEndian.PutUint64(b[24-8*i:], s[i])
	}
	return b[:]
}

// MarshalText answers 64 hexadecimal digits, or nothing for the sum of nothing.
func (s sum) MarshalText() ([]byte, error) {
	if s == (sum{}) {
		return []byte{}, nil
	}
	return []byte(hex.EncodeToString(s.bytes())), nil
}

// UnmarshalText is the inverse of MarshalText.
func (s *sum) UnmarshalText(text []byte) error {
	*s = sum{}
	if len(text) == 0 {
		return nil
	}
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != 32 {
		return fmt.Errorf("%w: a sum is 64 hexadecimal digits", tiers.ErrCorrupt)
	}
	for i := range s {
		s[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	return nil
}

// totals are what a checkpoint says of what it shows.
type totals struct {
	Sum           sum   `json:"sum"`
	Bytes         int64 `json:"bytes,omitempty"` // of the encoded records
	Messages      int   `json:"messages,omitempty"`
	Conversations int   `json:"conversations,omitempty"`
}

func (t *totals) add(o totals) {
	t.Sum.add(o.Sum)
	t.Bytes += o.Bytes
	t.Messages += o.Messages
	t.Conversations += o.Conversations
}

func (t *totals) sub(o totals) {
	t.Sum.sub(o.Sum)
	t.Bytes -= o.Bytes
	t.Messages -= o.Messages
	t.Conversations -= o.Conversations
}

// count adds a record, or takes one away.
func (t *totals) count(part string, raw []byte, sign int) {
	if sign > 0 {
		t.Sum.add(digest(part, raw))
	} else {
		t.Sum.sub(digest(part, raw))
	}
	t.Bytes += int64(sign * len(raw))
}
