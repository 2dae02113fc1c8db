package serializer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/sagestore/sagestore/tiers"
)

// checkJSON answers ErrCorrupt, with line and column, unless src is exactly one
// JSON value of valid UTF-8 that repeats no key of an object and is at most
// MaxDepth deep. encoding/json lets repeated keys pass and replaces what is not
// UTF-8.
func checkJSON(src []byte) error {
	if !utf8.Valid(src) {
		return fmt.Errorf("%w: the JSON text is not valid UTF-8", tiers.ErrCorrupt)
	}
	var room [keyRoom][]byte
	s := jsonText{src: src, keys: room[:0]}
	s.space()
	why := s.value(0)
	if why == "" {
		if s.space(); s.at < len(src) {
			why = "something follows the JSON value"
		}
	}
	if why == "" {
		return nil
	}
	before := src[:min(s.at, len(src))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%w: line %d, column %d: %s", tiers.ErrCorrupt, line, column, why)
}

// jsonText is a position in a JSON text.
type jsonText struct {
	src  []byte
	at   int
	keys [][]byte // of all objects that are open; a window of them belongs to each
}

func (s *jsonText) space() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *jsonText) take(c byte) bool {
	if s.at < len(s.src) && s.src[s.at] == c {
		s.at++
		return true
	}
	return false
}

// value answers what is wrong at s.at, or "".
func (s *jsonText) value(depth int) string {
	if s.at >= len(s.src) {
		return "the JSON text ends too early"
	}
	if depth > MaxDepth {
		return fmt.Sprintf("it is deeper than %d levels", MaxDepth)
	}
	switch c := s.src[s.at]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, _, why := s.text()
		return why
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return "a JSON value is expected"
}

func (s *jsonText) word(w string) string {
	if len(s.src)-s.at < len(w) || string(s.src[s.at:s.at+len(w)]) != w {
		return "a JSON value is expected"
	}
	s.at += len(w)
	return ""
}

func (s *jsonText) array(depth int) string {
	s.at++
	if s.space(); s.take(']') {
		return ""
	}
	for {
		s.space()
		if why := s.value(depth + 1); why != "" {
			return why
		}
		if s.space(); s.take(']') {
			return ""
		}
		if !s.take(',') {
			return `"," or "]" is expected`
		}
	}
}

func (s *jsonText) object(depth int) string {
	s.at++
	if s.space(); s.take('}') {
		return ""
	}
	keys := keySet{all: &s.keys, first: len(s.keys)}
	for {
		s.space()
		start := s.at
		if s.at >= len(s.src) || s.src[s.at] != '"' {
			return "the name of a field is expected"
		}
		key, escaped, why := s.text()
		if why != "" {
			return why
		}
		if escaped {
			var plain string
			if json.Unmarshal(s.src[start:s.at], &plain) == nil {
				key = []byte(plain)
			}
		}
		if !keys.add(key) {
			s.at = start
			return fmt.Sprintf("the key %q is there twice", key)
		}
		if s.space(); !s.take(':') {
			return `":" is expected`
		}
		s.space()
		if why := s.value(depth + 1); why != "" {
			return why
		}
		if s.space(); s.take('}') {
			keys.done()
			return ""
		}
		if !s.take(',') {
			return `"," or "}" is expected`
		}
	}
}

// text answers what is between the quotes, and whether it holds an escape.
func (s *jsonText) text() (inside []byte, escaped bool, why string) {
	s.at++
	start := s.at
	for s.at < len(s.src) {
		switch c := s.src[s.at]; {
		case c == '"':
			s.at++
			return s.src[start : s.at-1], escaped, ""
		case c < ' ':
			return nil, false, "a control character in a text has to be escaped"
		case c == '\\':
			escaped = true
			if why := s.escape(); why != "" {
				return nil, false, why
			}
		default:
			s.at++
		}
	}
	return nil, false, "a text does not end"
}

func (s *jsonText) escape() string {
	s.at++
	if s.at >= len(s.src) {
		return "a text does not end"
	}
	c := s.src[s.at]
	s.at++
	if c != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0 {
			return "an unknown escape in a text"
		}
		return ""
	}
	for range 4 {
		if s.at >= len(s.src) || !isHex(s.src[s.at]) {
			return `four hexadecimal digits are expected after "\u"`
		}
		s.at++
	}
	return ""
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s *jsonText) digits() bool {
	start := s.at
	for s.at < len(s.src) && s.src[s.at] >= '0' && s.src[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

func (s *jsonText) number() string {
	s.take('-')
	ok := s.take('0') || s.digits()
	if ok && s.take('.') {
		ok = s.digits()
	}
	if ok && (s.take('e') || s.take('E')) {
		_ = s.take('+') || s.take('-')
		ok = s.digits()
	}
	if !ok {
		return "a digit is expected"
	}
	return ""
}

// keySet finds repeated keys of one object. Small ones are compared one by one
// in room that all objects of a text share.
type keySet struct {
	all   *[][]byte
	first int
	many  map[string]struct{}
}

const (
	fewKeys = 16
	keyRoom = 32 // on the stack, for all objects that are open
)

func (k *keySet) add(key []byte) bool {
	if k.many != nil {
		if _, twice := k.many[string(key)]; twice {
			return false
		}
		k.many[string(key)] = struct{}{}
		return true
	}
	own := (*k.all)[k.first:]
	for _, o := range own {
		if bytes.Equal(o, key) {
			return false
		}
	}
	if len(own) < fewKeys {
		*k.all = append(*k.all, key)
		return true
	}
	k.many = make(map[string]struct{}, 2*fewKeys)
	for _, o := range own {
		k.many[string(o)] = struct{}{}
	}
	k.many[string(key)] = struct{}{}
	return true
}

func (k *keySet) done() { *k.all = (*k.all)[:k.first] }
