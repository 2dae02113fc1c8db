package serializer

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
)

// MaxDepth is how deep lists, maps and structs may be inside each other.
// Deeper values are refused at save and at load, by every codec.
const MaxDepth = 1000

// anatomy is what a codec has to know of a Go type before it trusts a library
// with it.
type anatomy struct {
	open     bool   // holds an interface: what is in it shows only in the value
	loops    bool   // may be deep without end, or contain itself
	times    bool   // holds time.Time
	foreign  bool   // holds a type that writes its own encoding
	doubtful bool   // holds a type that writes an encoding which it may not be able to read
	byRef    bool   // has marshalers that are found only through a pointer
	fault    string // why no value of the type can be read back; with the path of the field
}

// walked tells whether values have to be looked at before they are encoded.
func (a *anatomy) walked() bool { return a.open || a.loops }

// anatomist makes and keeps anatomies for one codec.
type anatomist struct {
	tag   string                  // struct tag that names fields, before "json"
	pairs []pair                  // the interfaces by which a type encodes itself
	plain func(reflect.Type) bool // types that the codec knows by itself, though they have such methods
	known sync.Map                // reflect.Type -> *anatomy
}

// pair is a marshaler and the unmarshaler that reads what it wrote.
type pair struct{ out, in reflect.Type }

func jsonPairs() []pair {
	return []pair{
		{reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }](), reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()},
		{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()},
	}
}

func (an *anatomist) of(t reflect.Type) *anatomy {
	if a, ok := an.known.Load(t); ok {
		if a, ok := a.(*anatomy); ok {
			return a
		}
	}
	a := &anatomy{}
	an.visit(a, t, "", seen{}, true)
	an.known.Store(t, a)
	return a
}

// seen are the types that were visited, true while they are open, and whether
// pointer receivers were reached there.
type seen map[struct {
	t         reflect.Type
	addressed bool
}]bool

// visit adds what t is to a; addressed says that pointer receivers are reached.
func (an *anatomist) visit(a *anatomy, t reflect.Type, path string, types seen, addressed bool) {
	if t == reflect.TypeFor[time.Time]() {
		a.times = true
		return
	}
	if an.visitOwn(a, t, addressed) {
		return
	}
	key := struct {
		t         reflect.Type
		addressed bool
	}{t, addressed}
	if open, again := types[key]; again {
		a.loops = a.loops || open
		return
	}
	types[key] = true
	defer func() { types[key] = false }()
	switch t.Kind() {
	case reflect.Interface:
		a.open = true
	case reflect.Pointer:
		an.visit(a, t.Elem(), path, types, true)
	case reflect.Slice, reflect.Array:
		an.visit(a, t.Elem(), path+"[]", types, addressed || t.Kind() == reflect.Slice)
	case reflect.Map:
		if t.Key().Kind() == reflect.Interface {
			a.setFault(path, "a map with keys of any type can't be read back")
		}
		an.visitOwn(a, t.Key(), false)
		an.visit(a, t.Elem(), path+"[]", types, false)
	case reflect.Struct:
		an.visitFields(a, t, path, types, addressed)
	default:
	}
}

// visitOwn answers true for a type that encodes itself.
func (an *anatomist) visitOwn(a *anatomy, t reflect.Type, addressed bool) bool {
	if t.Kind() == reflect.Interface || an.plain != nil && an.plain(t) {
		return false
	}
	for _, p := range an.pairs {
		own := t.Implements(p.out)
		if byRef := !own && t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(p.out); byRef {
			if !addressed {
				a.doubtful = true
			}
			a.byRef, own = true, true
		}
		if !own {
			continue
		}
		a.foreign = true
		if !t.Implements(p.in) && !reflect.PointerTo(t).Implements(p.in) {
			a.doubtful = true
		}
		return true
	}
	return false
}

func (an *anatomist) visitFields(a *anatomy, t reflect.Type, path string, types seen, addressed bool) {
	stored := 0
	for f := range t.Fields() {
		name, skip := an.fieldName(f)
		if skip {
			stored++ // it is the app's wish
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && inner.Kind() == reflect.Struct {
			if !f.IsExported() && f.Type.Kind() == reflect.Pointer {
				a.setFault(join(path, f.Name), "an embedded pointer to an unexported struct can't be read back")
			}
			stored++
			an.visit(a, f.Type, path, types, addressed)
			continue
		}
		if f.IsExported() {
			stored++
			an.visit(a, f.Type, join(path, name), types, addressed)
		}
	}
	if stored == 0 && t.NumField() > 0 {
		a.setFault(path, fmt.Sprintf("%s has unexported fields only, so nothing of it would be stored", t))
	}
}

// fieldName answers the name under which a field is stored.
func (an *anatomist) fieldName(f reflect.StructField) (name string, skip bool) {
	tag := f.Tag.Get(an.tag)
	if tag == "" {
		tag = f.Tag.Get("json")
	}
	if tag == "-" {
		return "", true
	}
	name, _, _ = strings.Cut(tag, ",")
	if name == "" {
		name = f.Name
	}
	return name, false
}

func (a *anatomy) setFault(path, why string) {
	if a.fault == "" {
		a.fault = at(path, why)
	}
}

// join appends a field to the path of a value, in the form a.b[2].c.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// at says what is wrong where: it puts a step before the path that why begins
// with, if any. What is too deep has no path that anyone wants to read.
func at(path, why string) string {
	if path == "" || why == tooDeep {
		return why
	}
	rest, nested := strings.CutPrefix(why, "field ")
	switch {
	case !nested:
		return "field " + path + ": " + why
	case strings.HasPrefix(rest, "["):
		return "field " + path + rest
	}
	return "field " + path + "." + rest
}
