package serializer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

const msgpackNil = 0xc0

// checkMsgpack answers an error unless src is exactly one msgpack value whose
// lengths are all within it, which repeats no key of a map, and which is at most
// MaxDepth deep; all this before anything is allocated. Where want is not nil,
// it has to fit that shape too: the library cuts 300 down to fit an int8.
func checkMsgpack(src []byte, want *shape) error {
	var room [keyRoom][]byte
	s := msgpackBytes{rest: src, keys: room[:0]}
	if err := s.value(want, 0); err != nil {
		if m, ok := errors.AsType[*misfit](err); ok {
			slices.Reverse(m.path)
			field := strings.TrimPrefix(strings.Join(m.path, ""), ".")
			return &mismatch{text: at(field, m.why), field: field, value: m.value, wanted: m.wanted}
		}
		return err
	}
	if len(s.rest) > 0 {
		return corruptMsgpack("something follows the value")
	}
	return nil
}

// misfit is a value that does not fit its shape, with the way to it from within.
type misfit struct {
	path   []string
	why    string
	value  string // what there is, as encoding/json calls it
	wanted reflect.Type
}

func (m *misfit) Error() string { return m.why }

// inside adds a step of the way.
func inside(err error, step string) error {
	if m, ok := errors.AsType[*misfit](err); ok {
		m.path = append(m.path, step)
	}
	return err
}

// json is what encoding/json calls such a value; with same it is one of the kind that is
// wanted.
func (c class) json(same bool) string {
	name := [...]string{"null", "bool", "number", "number", "string", "", "array", "object", ""}[c]
	if same {
		name += " "
	}
	return name
}

type msgpackBytes struct {
	rest []byte
	keys [][]byte
}

// class is what a msgpack value is by its first byte.
type class uint8

const (
	isNil class = iota
	isBool
	isInt
	isFloat
	isText
	isBin
	isList
	isMap
	isExt
)

func (c class) String() string {
	return [...]string{"nil", "bool", "number", "number", "text", "byte string", "list", "map", "extension"}[c]
}

// head is the first byte of a value, with what follows it directly.
type head struct {
	class
	n        int    // bytes, elements or pairs that follow
	number   uint64 // of an integer, as two's complement
	negative bool
}

func (s *msgpackBytes) value(want *shape, depth int) error {
	if depth > MaxDepth {
		return corruptMsgpack(fmt.Sprintf("it is deeper than %d levels", MaxDepth))
	}
	h, err := s.head()
	if err != nil {
		return err
	}
	if want != nil {
		if why := want.refuses(h); why != "" {
			return &misfit{why: why, value: h.json(strings.HasPrefix(why, "the ")), wanted: want.typ}
		}
	}
	switch h.class {
	case isText, isBin, isExt:
		s.rest = s.rest[h.n:]
	case isList:
		for i := range h.n {
			if err := s.value(want.element(i), depth+1); err != nil {
				return inside(err, index(i))
			}
		}
	case isMap:
		return s.pairs(h.n, want, depth)
	default:
	}
	return nil
}

func (s *msgpackBytes) pairs(n int, want *shape, depth int) error {
	keys := keySet{all: &s.keys, first: len(s.keys)}
	for range n {
		before := s.rest
		if err := s.value(want.mapKey(), depth+1); err != nil {
			return err
		}
		key := before[:len(before)-len(s.rest)]
		if !keys.add(key) {
			return corruptMsgpack("a key of a map is there twice")
		}
		if err := s.value(want.mapped(key), depth+1); err != nil {
			return inside(err, "."+string(msgpackText(key)))
		}
	}
	keys.done()
	return nil
}

// head takes the first byte of a value and the number after it. Whatever length
// it answers is there.
func (s *msgpackBytes) head() (head, error) {
	if len(s.rest) == 0 {
		return head{}, corruptMsgpack("it ends too early")
	}
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch {
	case c <= 0x7f:
		return head{class: isInt, number: uint64(c)}, nil
	case c >= 0xe0:
		return head{class: isInt, number: uint64(int64(int8(c))), negative: true}, nil //nolint:gosec // the sign is meant to be extended
	case c <= 0x8f:
		return s.counted(isMap, uint64(c&0x0f), 2)
	case c <= 0x9f:
		return s.counted(isList, uint64(c&0x0f), 1)
	case c <= 0xbf:
		return s.counted(isText, uint64(c&0x1f), 1)
	}
	switch c {
	case msgpackNil:
		return head{class: isNil}, nil
	case 0xc2, 0xc3:
		return head{class: isBool}, nil
	case 0xca, 0xcb:
		_, err := s.take(4 << (c - 0xca))
		return head{class: isFloat}, err
	case 0xcc, 0xcd, 0xce, 0xcf:
		n, err := s.take(1 << (c - 0xcc))
		return head{class: isInt, number: n}, err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (c - 0xd0)
		n, err := s.take(size)
		signed := int64(n) << (64 - 8*size) >> (64 - 8*size)                         //nolint:gosec // the sign is meant to be extended
		return head{class: isInt, number: uint64(signed), negative: signed < 0}, err //nolint:gosec // two's complement is meant
	case 0xc4, 0xc5, 0xc6:
		return s.sized(isBin, 1<<(c-0xc4), 1)
	case 0xd9, 0xda, 0xdb:
		return s.sized(isText, 1<<(c-0xd9), 1)
	case 0xdc, 0xdd:
		return s.sized(isList, 2<<(c-0xdc), 1)
	case 0xde, 0xdf:
		return s.sized(isMap, 2<<(c-0xde), 2)
	case 0xc7, 0xc8, 0xc9:
		h, err := s.sized(isExt, 1<<(c-0xc7), 1)
		return s.extension(h, err)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return s.extension(head{class: isExt, n: 1 << (c - 0xd4)}, nil)
	}
	return head{}, corruptMsgpack("an unknown code")
}

func (s *msgpackBytes) take(n int) (uint64, error) {
	if n > len(s.rest) {
		return 0, corruptMsgpack("it ends too early")
	}
	var b [8]byte
	copy(b[8-n:], s.rest[:n])
	s.rest = s.rest[n:]
	return binary.BigEndian.Uint64(b[:]), nil
}

func (s *msgpackBytes) sized(c class, digits int, least uint) (head, error) {
	n, err := s.take(digits)
	if err != nil {
		return head{}, err
	}
	return s.counted(c, n, least)
}

// counted checks that n items of at least so many bytes can follow.
func (s *msgpackBytes) counted(c class, n uint64, least uint) (head, error) {
	if n > uint64(len(s.rest))/uint64(least) {
		return head{}, corruptMsgpack("a length is larger than what is left")
	}
	return head{class: c, n: int(n)}, nil //nolint:gosec // n was compared with a length
}

// extension counts the type byte in.
func (s *msgpackBytes) extension(h head, err error) (head, error) {
	h.n++
	if err == nil && h.n > len(s.rest) {
		err = corruptMsgpack("it ends too early")
	}
	return h, err
}

func corruptMsgpack(why string) error {
	return fmt.Errorf("%w: not a whole msgpack value: %s", tiers.ErrCorrupt, why)
}

// refuses answers why a value does not fit the shape, or "".
func (w *shape) refuses(h head) string {
	if h.class == isNil || w.kind == reflect.Invalid {
		return ""
	}
	ok := false
	switch w.kind {
	case reflect.Bool:
		ok = h.class == isBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if h.class == isInt {
			least := int64(math.MinInt64) >> (64 - w.bits)
			if n := int64(h.number); h.negative && n < least || !h.negative && h.number > uint64(-(least+1)) { //nolint:gosec // both ends were told apart by the sign
				return fmt.Sprintf("the msgpack number that is stored does not fit %s", w.typ)
			}
			ok = true
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if h.class == isInt {
			if h.negative || w.bits < 64 && h.number>>w.bits != 0 {
				return fmt.Sprintf("the msgpack number that is stored does not fit %s", w.typ)
			}
			ok = true
		}
	case reflect.Float32, reflect.Float64:
		ok = h.class == isFloat || h.class == isInt && (h.negative || h.number <= math.MaxInt64)
	case reflect.String:
		ok = h.class == isText || h.class == isBin
	case reflect.Slice, reflect.Array:
		if w.raw {
			ok = h.class == isText || h.class == isBin
		} else {
			ok = h.class == isList && (w.kind == reflect.Slice || h.n <= w.bits)
		}
	case reflect.Map:
		ok = h.class == isMap
	case reflect.Struct:
		ok = h.class == isMap && !w.asList || h.class == isList && w.asList
	case reflect.Interface: // one with methods: the library would panic
	default:
		return ""
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("a msgpack %s is stored, %s is wanted", h.class, w.typ)
}

// msgpackText answers the text of an encoded key, or nil.
func msgpackText(key []byte) []byte {
	s := msgpackBytes{rest: key}
	if h, err := s.head(); err == nil && h.class == isText {
		return s.rest
	}
	return nil
}
