package serializer

import (
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// checkGob answers ErrCorrupt unless src is one gob value, with the definitions
// of its types before it, whose lengths are all within it and which is at most
// MaxDepth deep. Package gob makes room for as many entries of a map as the
// bytes say, before it looks whether they are there.
func checkGob(src []byte) error {
	s := gobBytes{all: src, types: map[int64]gobType{}}
	id := s.sequence(false)
	s.top(id, 0)
	if s.why == "" && (len(s.rest) > 0 || len(s.all) > 0) {
		s.why = "something follows the value"
	}
	if s.why != "" {
		return fmt.Errorf("%w: not a whole gob value: %s", tiers.ErrCorrupt, s.why)
	}
	return nil
}

// The identities of the types that gob knows from the start.
const (
	gobBytesType  = 5
	gobStringType = 6
	gobComplex    = 7
	gobInterface  = 8
)

type gobKind uint8

const (
	gobArray gobKind = iota
	gobSlice
	gobStruct
	gobMap
	gobOwn // encodes itself: a byte string
)

type gobType struct {
	kind      gobKind
	key, elem int64
	fields    []int64
}

// gobBytes is a position in a gob stream. After the first fault it stays where
// it is and answers zeros.
type gobBytes struct {
	all   []byte // messages to come
	rest  []byte // of this message
	types map[int64]gobType
	why   string
}

func (s *gobBytes) fail(why string) {
	if s.why == "" {
		s.why = why
	}
	s.rest, s.all = nil, nil
}

// uint takes gob's variable-length number off b.
func (s *gobBytes) uint(b *[]byte) uint64 {
	if len(*b) == 0 {
		s.fail("it ends too early")
		return 0
	}
	c := (*b)[0]
	*b = (*b)[1:]
	if c <= 0x7f {
		return uint64(c)
	}
	n := -int(int8(c)) //nolint:gosec // gob writes the count as a negative byte
	if n > 8 || n > len(*b) {
		s.fail("a number is not valid")
		return 0
	}
	var x uint64
	for _, d := range (*b)[:n] {
		x = x<<8 | uint64(d)
	}
	*b = (*b)[n:]
	return x
}

func (s *gobBytes) int() int64 {
	u := s.uint(&s.rest)
	if u&1 != 0 {
		return ^int64(u >> 1)
	}
	return int64(u >> 1)
}

// count takes a number of things that have at least a byte each.
func (s *gobBytes) count() int {
	n := s.uint(&s.rest)
	if n > uint64(len(s.rest)) {
		s.fail("a length is larger than what is left")
		return 0
	}
	return int(n) //nolint:gosec // n was compared with a length
}

func (s *gobBytes) skip() { s.rest = s.rest[s.count():] }

// sequence takes definitions of types, up to the identity of a value's type.
func (s *gobBytes) sequence(inside bool) int64 {
	for s.why == "" {
		if len(s.rest) == 0 {
			n := s.uint(&s.all)
			if n > uint64(len(s.all)) {
				s.fail("a message is longer than what is left")
				return 0
			}
			s.rest, s.all = s.all[:n], s.all[n:]
		}
		id := s.int()
		if id >= 0 {
			return id
		}
		s.define(-id)
		if len(s.rest) > 0 {
			if !inside {
				s.fail("something follows the definition of a type")
			}
			s.uint(&s.rest)
		}
	}
	return 0
}

// top takes a value that stands by itself.
func (s *gobBytes) top(id int64, depth int) {
	if t, ok := s.types[id]; !ok || t.kind != gobStruct {
		if s.why == "" && s.uint(&s.rest) != 0 {
			s.fail("a value does not begin as it should")
		}
	}
	s.value(id, depth)
}

func (s *gobBytes) value(id int64, depth int) {
	if s.why != "" {
		return
	}
	if depth > MaxDepth {
		s.fail(fmt.Sprintf("it is deeper than %d levels", MaxDepth))
		return
	}
	switch id {
	case 1, 2, 3, 4:
		s.uint(&s.rest)
		return
	case gobBytesType, gobStringType:
		s.skip()
		return
	case gobComplex:
		s.uint(&s.rest)
		s.uint(&s.rest)
		return
	case gobInterface:
		if n := s.count(); n > 0 {
			s.rest = s.rest[n:]
			concrete := s.sequence(true)
			s.uint(&s.rest)
			s.top(concrete, depth+1)
		}
		return
	}
	t, ok := s.types[id]
	if !ok {
		s.fail("a type is not defined")
		return
	}
	s.composite(t, depth+1)
}

func (s *gobBytes) composite(t gobType, depth int) {
	switch t.kind {
	case gobOwn:
		s.skip()
	case gobArray, gobSlice:
		for range s.count() {
			if s.value(t.elem, depth); s.why != "" {
				return
			}
		}
	case gobMap:
		for range s.count() {
			s.value(t.key, depth)
			if s.value(t.elem, depth); s.why != "" {
				return
			}
		}
	case gobStruct:
		s.each(func(field int) {
			if field >= len(t.fields) {
				s.fail("a struct has an unknown field")
				return
			}
			s.value(t.fields[field], depth)
		})
	}
}

// each takes the fields of a struct, which are told by the distance to the one
// before and end in a zero.
func (s *gobBytes) each(take func(field int)) {
	field := -1
	for s.why == "" {
		delta := s.uint(&s.rest)
		if delta == 0 {
			return
		}
		if delta > 1<<20 {
			s.fail("a struct has an unknown field")
			return
		}
		field += int(delta)
		take(field)
	}
}

// define takes the definition of a type: gob's wireType, of whose seven fields
// one is set.
func (s *gobBytes) define(id int64) {
	if _, twice := s.types[id]; twice || id <= gobInterface {
		s.fail("a type is defined twice")
		return
	}
	var t gobType
	s.each(func(field int) {
		switch field {
		case 0, 1:
			t.kind = gobKind(field)
			s.numbers(func(n int, v int64) {
				if n == 1 {
					t.elem = v
				}
			})
		case 2:
			t.kind = gobStruct
			s.each(func(f int) { s.structField(f, &t) })
		case 3:
			t.kind = gobMap
			s.numbers(func(n int, v int64) {
				switch n {
				case 1:
					t.key = v
				case 2:
					t.elem = v
				}
			})
		case 4, 5, 6:
			t.kind = gobOwn
			s.numbers(func(int, int64) {})
		default:
			s.fail("a type is of an unknown kind")
		}
	})
	s.types[id] = t
}

// numbers takes a struct whose first field is the common part, and the rest
// numbers.
func (s *gobBytes) numbers(take func(field int, v int64)) {
	s.each(func(field int) {
		if field == 0 {
			s.named()
			return
		}
		take(field, s.int())
	})
}

func (s *gobBytes) structField(field int, t *gobType) {
	switch field {
	case 0:
		s.named()
	case 1:
		for range s.count() {
			t.fields = append(t.fields, s.named())
		}
	default:
		s.fail("a type is of an unknown kind")
	}
}

// named takes a name and the identity of a type.
func (s *gobBytes) named() (id int64) {
	s.each(func(field int) {
		switch field {
		case 0:
			s.skip()
		case 1:
			id = s.int()
		default:
			s.fail("a type is of an unknown kind")
		}
	})
	return id
}
