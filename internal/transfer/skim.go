package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sagestore/sagestore/tiers"
)

// skimmer reads JSON piece by piece. It looks at the structure only: what it hands
// out has to be decoded to know that it is sound. It takes no more memory than the
// pieces that are asked for.
type skimmer struct {
	in   *bufio.Reader
	line int // that it is at, from 1
}

func newSkimmer(r io.Reader) *skimmer { return &skimmer{bufio.NewReaderSize(r, 1<<16), 1} }

// errEnds is a text that ends before its value does.
var errEnds = fmt.Errorf("%w: the text ends before its JSON does", tiers.ErrCorrupt)

func (s *skimmer) next() (byte, error) {
	c, err := s.in.ReadByte()
	if c == '\n' && err == nil {
		s.line++
	}
	return c, err
}

// back takes back the byte that was read last, which is c.
func (s *skimmer) back(c byte) {
	if s.in.UnreadByte() == nil && c == '\n' {
		s.line--
	}
}

// look answers the next byte that is no white space, and leaves it there.
func (s *skimmer) look() (byte, error) {
	for {
		c, err := s.next()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			s.back(c)
			return c, nil
		}
	}
}

// must is look where something has to follow.
func (s *skimmer) must() (byte, error) {
	c, err := s.look()
	if errors.Is(err, io.EOF) {
		err = errEnds
	}
	return c, err
}

// value reads a value and answers its text, or no text when it has more than most
// bytes.
func (s *skimmer) value(most int) (text json.RawMessage, whole bool, err error) {
	first, err := s.must()
	if err != nil {
		return nil, false, err
	}
	whole = true
	keep := func(c byte) {
		switch {
		case !whole:
		case len(text) >= most:
			text, whole = nil, false
		default:
			text = append(text, c)
		}
	}
	if first != '"' && first != '{' && first != '[' {
		for {
			c, err := s.next()
			if errors.Is(err, io.EOF) {
				return text, whole, nil
			}
			if err != nil {
				return nil, false, err
			}
			if bytes.IndexByte([]byte(" \t\r\n,:]}[{\""), c) >= 0 {
				s.back(c)
				if len(text) == 0 && whole && most > 0 {
					return nil, false, s.unexpected(c)
				}
				return text, whole, nil
			}
			keep(c)
		}
	}
	for depth, quoted, escaped := 0, false, false; ; {
		c, err := s.next()
		if errors.Is(err, io.EOF) {
			err = errEnds
		}
		if err != nil {
			return nil, false, err
		}
		keep(c)
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth <= 0 && !quoted {
			return text, whole, nil
		}
	}
}

func (s *skimmer) unexpected(c byte) error {
	return fmt.Errorf("%w: %q is not expected there", tiers.ErrCorrupt, c)
}

// expect reads one byte after white space.
func (s *skimmer) expect(want byte) error {
	c, err := s.must()
	if err != nil {
		return err
	}
	if c != want {
		return s.unexpected(c)
	}
	_, err = s.next()
	return err
}

// mostName bounds the names in objects, in bytes.
const mostName = 64 << 10

// object reads an object and calls fn for each name; fn reads the value.
func (s *skimmer) object(fn func(name string) error) error {
	return s.list('{', '}', func() error {
		raw, whole, err := s.value(mostName)
		if err != nil {
			return err
		}
		var name string
		if !whole || json.Unmarshal(raw, &name) != nil {
			return fmt.Errorf("%w: a name is no text", tiers.ErrCorrupt)
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return fn(name)
	})
}

// array reads an array and calls fn for each element; fn reads it.
func (s *skimmer) array(fn func() error) error { return s.list('[', ']', fn) }

func (s *skimmer) list(from, to byte, fn func() error) error {
	if err := s.expect(from); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := s.must()
		switch {
		case err != nil:
			return err
		case c == to:
			return s.expect(to)
		case !first:
			if err := s.expect(','); err != nil {
				return err
			}
		}
		if err := fn(); err != nil {
			return err
		}
	}
}

// errLong is a piece that is too long to be looked at.
func errLong() error {
	return fmt.Errorf("%w: it has more than %d bytes", tiers.ErrTooLarge, mostPiece)
}
