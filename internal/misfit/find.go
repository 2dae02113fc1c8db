package misfit

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// finding is the innermost value that is not what is wanted.
type finding struct {
	field  string // as a path, "" for the whole
	at     int    // in the text
	value  []byte
	wanted reflect.Type
}

func (f *finding) String() string { return says(f.field, kindOf(f.value), f.wanted, sameKind(f)) }

// find answers where JSON is not what a type wants, nil if that can't be told.
func find(text []byte, t reflect.Type) *finding {
	start := len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
	if start == len(text) {
		return nil
	}
	if value := bytes.TrimSpace(text); string(value) == "null" { // which encoding/json takes for anything
		return &finding{"", start, value, t}
	}
	return search(bytes.TrimSpace(text), start, "", t)
}

// search looks into a value that begins at a place of the text.
func search(value []byte, at int, path string, t reflect.Type) *finding {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if fits(value, t) {
		return nil
	}
	here := &finding{path, at, value, t}
	if own(t) || len(value) == 0 {
		return here
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if _, err := d.Token(); err != nil {
		return here
	}
	switch kind := t.Kind(); {
	case value[0] == '[' && (kind == reflect.Slice || kind == reflect.Array):
		for i := 0; d.More(); i++ {
			if f := next(d, at, fmt.Sprintf("%s[%d]", path, i), t.Elem()); f != nil {
				return f
			}
		}
	case value[0] == '{' && (kind == reflect.Struct || kind == reflect.Map):
		for d.More() {
			token, err := d.Token()
			name, is := token.(string)
			if err != nil || !is {
				return here
			}
			member := reflect.TypeFor[json.RawMessage]()
			if kind == reflect.Map {
				member = t.Elem()
			} else if field, is := fieldOf(t, name); is {
				member = field
			}
			if f := next(d, at, joined(path, name), member); f != nil {
				return f
			}
		}
	}
	return here
}

// next looks into the value that follows.
func next(d *json.Decoder, at int, path string, t reflect.Type) *finding {
	var value json.RawMessage
	if d.Decode(&value) != nil {
		return nil
	}
	return search(value, at+int(d.InputOffset())-len(value), path, t)
}

func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func fits(value []byte, t reflect.Type) bool {
	return json.Unmarshal(value, reflect.New(t).Interface()) == nil
}

// own tells of types that read JSON themselves.
func own(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldOf answers the type of a field by its name in JSON.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-", !f.IsExported(), f.Anonymous && tag == "":
			continue
		case tag == "":
			tag = f.Name
		}
		if strings.EqualFold(tag, name) {
			return f.Type, true
		}
	}
	return nil, false
}

// notUTF8 answers where a text is none, or -1.
func notUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}
