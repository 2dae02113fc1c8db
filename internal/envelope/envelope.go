// Package envelope frames a binary value so that it describes itself and so
// that a flipped bit is found. docs/FORMAT.md gives the bytes.
//
//	b := envelope.Append(nil, envelope.Header{Codec: "msgpack", Schema: 1, Size: 3}, payload)
//	h, payload, err := envelope.Parse(b) // ErrCorrupt when a bit is not what it was
package envelope

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// Version is the format that Append writes. Parse reads it and all before it.
const Version = 1

// Every format begins with the magic and its version, and ends in the CRC-32C
// of all that is before it. The first byte is no UTF-8 and no msgpack, so that
// neither text nor a bare value is ever taken for an envelope.
const (
	magic    = "\xc1SG"
	shortest = len(magic) + 1 + 1 + 1 + 1 + 1 + Trailer
)

// Trailer is the length of the checksum behind the payload.
const Trailer = 4

// numbered is how many codecs have a number instead of a name. Other names
// follow their length, which is counted on from there.
const numbered = 4

// number answers the number of a codec, which is part of the format.
func number(codec string) (n byte, ok bool) {
	switch codec {
	case "json":
		return 0, true
	case "msgpack":
		return 1, true
	case "gob":
		return 2, true
	case "raw":
		return 3, true
	}
	return 0, false
}

// Header is what an envelope says about its payload.
type Header struct {
	Codec  string
	Schema uint32
	Flags  tiers.Flags // Compressed, Encrypted
	KeyID  string      // which key encrypted it; only with Encrypted
	Size   uint64      // length of the value before compression and encryption
}

// Append appends an envelope of payload to dst. Of the flags only Compressed
// and Encrypted are kept. The payload may not overlap the room behind dst.
func Append(dst []byte, h Header, payload []byte) []byte {
	start := len(dst)
	dst = slices.Grow(dst, MaxHeader(h)+len(payload)+Trailer)
	dst = AppendHeader(dst, h)
	dst = append(dst, payload...)
	return Seal(dst, start)
}

// MaxHeader is a bound on the bytes that AppendHeader appends.
func MaxHeader(h Header) int {
	return len(magic) + 2 + 4*binary.MaxVarintLen64 + len(h.Codec) + len(h.KeyID)
}

// AppendHeader appends what comes before the payload, for a payload that is
// made in place. [Seal] completes it.
func AppendHeader(dst []byte, h Header) []byte {
	dst = append(dst, magic...)
	dst = append(dst, Version, byte(h.Flags&(tiers.Compressed|tiers.Encrypted)))
	if n, ok := number(h.Codec); ok {
		dst = append(dst, n)
	} else {
		dst = binary.AppendUvarint(dst, uint64(numbered+len(h.Codec)))
		dst = append(dst, h.Codec...)
	}
	dst = binary.AppendUvarint(dst, uint64(h.Schema))
	dst = binary.AppendUvarint(dst, h.Size)
	if h.Flags&tiers.Encrypted != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(h.KeyID)))
		dst = append(dst, h.KeyID...)
	}
	return dst
}

// Seal appends the checksum of dst[start:], where an envelope begins.
func Seal(dst []byte, start int) []byte {
	return binary.BigEndian.AppendUint32(dst, checksum(dst[start:]))
}

// Is tells whether b begins like an envelope.
func Is(b []byte) bool { return len(b) >= len(magic) && string(b[:len(magic)]) == magic }

// Parse answers what the envelope says and its payload, which aliases b. What
// is not an envelope, or not whole, is ErrCorrupt; a format that is newer than
// [Version] is ErrUnsupported. It allocates nothing but names of codecs that
// have no number, and key ids.
func Parse(b []byte) (Header, []byte, error) {
	if !Is(b) {
		return Header{}, nil, corrupt("it does not begin like an envelope")
	}
	if len(b) < shortest {
		return Header{}, nil, corrupt("it is cut off")
	}
	body := b[:len(b)-Trailer]
	if checksum(body) != binary.BigEndian.Uint32(b[len(body):]) {
		return Header{}, nil, corrupt("its checksum is wrong")
	}
	if v := body[len(magic)]; v != Version {
		return Header{}, nil, tiers.Hint(fmt.Errorf("%w: envelope format %d, this program reads up to %d",
			tiers.ErrUnsupported, v, Version), "update sagestore")
	}
	return parseV1(body)
}

// parseV1 takes only what AppendHeader would have written, so that there is one
// way to write a header.
func parseV1(body []byte) (h Header, payload []byte, err error) {
	rest := body[len(magic)+1:]
	h.Flags, rest = tiers.Flags(rest[0]), rest[1:]
	if h.Flags&^(tiers.Compressed|tiers.Encrypted) != 0 {
		return Header{}, nil, corrupt("it has unknown flags")
	}
	code, rest, err := uvarint(rest, math.MaxInt32)
	if err != nil {
		return Header{}, nil, err
	}
	if code < numbered {
		h.Codec = [numbered]string{"json", "msgpack", "gob", "raw"}[code]
	} else if h.Codec, rest, err = text(rest, code-numbered); err != nil {
		return Header{}, nil, err
	} else if _, has := number(h.Codec); has {
		return Header{}, nil, corrupt("it spells out a codec that has a number")
	}
	schema, rest, err := uvarint(rest, math.MaxUint32)
	if err != nil {
		return Header{}, nil, err
	}
	h.Schema = uint32(schema) //nolint:gosec // uvarint bounded it
	if h.Size, rest, err = uvarint(rest, math.MaxInt64); err != nil {
		return Header{}, nil, err
	}
	if h.Flags&tiers.Encrypted != 0 {
		n, after, err := uvarint(rest, math.MaxInt32)
		if err != nil {
			return Header{}, nil, err
		}
		if h.KeyID, rest, err = text(after, n); err != nil {
			return Header{}, nil, err
		}
	}
	return h, rest, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func uvarint(b []byte, most uint64) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > most || n > 1 && b[n-1] == 0 {
		return 0, nil, corrupt("a number in its header is not valid")
	}
	return v, b[n:], nil
}

func text(b []byte, n uint64) (s string, rest []byte, err error) {
	if n > uint64(len(b)) {
		return "", nil, corrupt("a name in its header is longer than all of it")
	}
	return string(b[:n]), b[n:], nil
}

func corrupt(why string) error { return fmt.Errorf("%w: %s", tiers.ErrCorrupt, why) }
