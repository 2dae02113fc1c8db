package serializer

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// shape is what a Go type wants of a msgpack value. A nil shape wants nothing.
type shape struct {
	kind   reflect.Kind // Invalid: nothing is known
	typ    reflect.Type
	bits   int  // of a number; the length of an array
	raw    bool // a list of bytes is one byte string
	asList bool // a struct is the list of its fields
	elem   *shape
	key    *shape
	fields map[string]*shape
	order  []*shape
}

// shapes makes and keeps the shapes of one codec.
type shapes struct {
	*anatomist
	made sync.Map // reflect.Type -> *shape
}

func (s *shapes) of(t reflect.Type) *shape {
	if w, ok := s.made.Load(t); ok {
		if w, ok := w.(*shape); ok {
			return w
		}
	}
	w := s.build(t, map[reflect.Type]*shape{})
	s.made.Store(t, w)
	return w
}

func (s *shapes) build(t reflect.Type, known map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer && !s.visitOwn(&anatomy{}, t, true) {
		t = t.Elem()
	}
	if w, ok := known[t]; ok {
		return w
	}
	w := &shape{kind: t.Kind(), typ: t}
	known[t] = w
	if t == reflect.TypeFor[time.Time]() || s.visitOwn(&anatomy{}, t, true) ||
		t.Kind() == reflect.Interface && t.NumMethod() == 0 {
		w.kind = reflect.Invalid
		return w
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.bits = t.Bits()
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Array {
			w.bits = t.Len()
		}
		w.raw = t.Elem().Kind() == reflect.Uint8
		w.elem = s.build(t.Elem(), known)
	case reflect.Map:
		w.key = s.build(t.Key(), known)
		w.elem = s.build(t.Elem(), known)
	case reflect.Struct:
		w.fields = map[string]*shape{}
		s.buildFields(w, t, known)
	default:
	}
	return w
}

// buildFields follows the library: msgpack tag, else json tag, else the name;
// embedded structs are part of the outer one unless a name is taken.
func (s *shapes) buildFields(w *shape, t reflect.Type, known map[reflect.Type]*shape) {
	for f := range t.Fields() {
		name, skip := s.fieldName(f)
		if skip {
			continue
		}
		tag := f.Tag.Get("msgpack")
		if f.Name == "_msgpack" {
			w.asList = strings.Contains(tag, ",as_array") || strings.Contains(tag, ",asArray")
		}
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		inner := s.build(f.Type, known)
		if f.Anonymous && !strings.Contains(tag, ",noinline") && inner.kind == reflect.Struct && !inner.asList {
			for n, e := range inner.fields {
				if _, taken := w.fields[n]; !taken {
					w.fields[n] = e
				}
			}
			w.order = append(w.order, inner.order...)
			continue
		}
		w.fields[name] = inner
		w.order = append(w.order, inner)
	}
}

func (w *shape) element(i int) *shape {
	switch {
	case w == nil:
		return nil
	case w.kind != reflect.Struct:
		return w.elem
	case i < len(w.order):
		return w.order[i]
	}
	return nil
}

func (w *shape) mapKey() *shape {
	if w == nil {
		return nil
	}
	return w.key
}

func (w *shape) mapped(key []byte) *shape {
	switch {
	case w == nil:
		return nil
	case w.kind == reflect.Struct:
		return w.fields[string(msgpackText(key))]
	}
	return w.elem
}
