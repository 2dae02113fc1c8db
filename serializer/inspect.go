package serializer

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// inspector looks for the part of a value that a codec can't bring back. It
// goes through values that may be deep or hold interfaces before they are
// encoded, and through others only when encoding has failed, to tell where.
type inspector struct {
	*anatomist
	finite   bool // NaN and infinite numbers are refused
	text     bool // strings that are not UTF-8 are refused
	textKeys bool // keys of maps are text in the end
	typed    bool // interfaces keep the types of what they hold
	marshal  bool // marshalers are called, to find the one that fails
	kinds    func(reflect.Kind) bool
}

// fault answers what is wrong and where, or "".
func (in *inspector) fault(v any) string { return (&inspection{inspector: in}).any(v, 0) }

// inspection is one walk through a value.
type inspection struct {
	*inspector
	foreign bool // a type that encodes itself was met
}

func (in *inspection) any(v any, depth int) string {
	if in.fine(v) {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		return in.object(v, depth+1)
	case []any:
		if depth++; depth > MaxDepth {
			return tooDeep
		}
		for i, e := range v {
			if in.fine(e) {
				continue
			}
			if f := in.any(e, depth); f != "" {
				return at(index(i), f)
			}
		}
		return ""
	}
	rv := reflect.ValueOf(v)
	if a := in.of(rv.Type()); a.fault != "" {
		return a.fault
	}
	if depth > 0 && in.textKeys && rv.Kind() == reflect.Map && rv.Type().Key().Kind() != reflect.String {
		return fmt.Sprintf("%s inside an interface can't be read back: only maps with text as keys can", rv.Type())
	}
	return in.value(rv, depth, 0)
}

func (in *inspection) object(m map[string]any, depth int) string {
	if depth > MaxDepth {
		return tooDeep
	}
	for k, e := range m {
		if in.text && !utf8.ValidString(k) {
			return badKey
		}
		if in.fine(e) {
			continue
		}
		if f := in.any(e, depth); f != "" {
			return at(k, f)
		}
	}
	return ""
}

// fine tells at once whether a plain value is as it should be.
func (in *inspection) fine(v any) bool {
	switch v := v.(type) {
	case nil, bool, int, int64, uint64, json.Number:
		return true
	case string:
		return !in.text || utf8.ValidString(v)
	case float64:
		return !in.finite || !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return false
}

func (in *inspection) value(v reflect.Value, depth, hops int) string {
	if v.Type() == reflect.TypeFor[time.Time]() || in.self(v.Type()) {
		return in.call(v)
	}
	if !in.kinds(v.Kind()) {
		return fmt.Sprintf("%s can't be stored", v.Type())
	}
	switch v.Kind() {
	case reflect.String:
		if in.text && !utf8.ValidString(v.String()) {
			return "the text is not valid UTF-8"
		}
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); in.finite && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return strconv.FormatFloat(f, 'g', -1, 64) + " is no number that can be stored"
		}
	case reflect.Interface:
		return in.held(v, depth)
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		if hops > MaxDepth {
			return tooDeep
		}
		return in.value(v.Elem(), depth, hops+1)
	case reflect.Slice, reflect.Array:
		return in.list(v, depth+1)
	case reflect.Map:
		return in.mapping(v, depth+1)
	case reflect.Struct:
		return in.fields(v, depth+1)
	default:
	}
	return ""
}

// held looks into an interface.
func (in *inspection) held(v reflect.Value, depth int) string {
	switch {
	case v.IsNil():
		return ""
	case v.NumMethod() > 0 && !in.typed:
		return fmt.Sprintf("the interface %s can't be read back", v.Type())
	case depth > MaxDepth:
		return tooDeep
	case v.Elem().Kind() == reflect.Pointer: // it may lead back here
		depth++
	}
	return in.any(v.Elem().Interface(), depth)
}

func (in *inspection) list(v reflect.Value, depth int) string {
	if depth > MaxDepth {
		return tooDeep
	}
	switch v.Type().Elem().Kind() {
	case reflect.Uint8, reflect.Bool, reflect.Int, reflect.Int64:
		return ""
	default:
	}
	for i := range v.Len() {
		if f := in.value(v.Index(i), depth, 0); f != "" {
			return at(index(i), f)
		}
	}
	return ""
}

func (in *inspection) mapping(v reflect.Value, depth int) string {
	if depth > MaxDepth {
		return tooDeep
	}
	key := v.Type().Key()
	if in.text && !textKey(key) {
		return fmt.Sprintf("a map with keys of type %s can't be stored", key)
	}
	for it := v.MapRange(); it.Next(); {
		if in.text && key.Kind() == reflect.String && !utf8.ValidString(it.Key().String()) {
			return badKey
		}
		if f := in.value(it.Value(), depth, 0); f != "" {
			return at(fmt.Sprint(it.Key()), f)
		}
	}
	return ""
}

func (in *inspection) fields(v reflect.Value, depth int) string {
	if depth > MaxDepth {
		return tooDeep
	}
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, skip := in.fieldName(f)
		if skip || !f.IsExported() && !f.Anonymous {
			continue
		}
		if empty := strings.Contains(f.Tag.Get("json"), ",omitempty"); empty && v.Field(i).IsZero() {
			continue
		}
		if fault := in.value(v.Field(i), depth, 0); fault != "" {
			if f.Anonymous {
				return fault
			}
			return at(name, fault)
		}
	}
	return ""
}

// self tells whether the type encodes itself.
func (in *inspection) self(t reflect.Type) bool {
	own := in.visitOwn(&anatomy{}, t, true)
	in.foreign = in.foreign || own
	return own
}

// call asks a marshaler whether it is the one that fails.
func (in *inspection) call(v reflect.Value) string {
	if !in.marshal || v.Kind() == reflect.Pointer && v.IsNil() || !v.CanInterface() {
		return ""
	}
	if v.CanAddr() {
		v = v.Addr()
	}
	var err error
	switch m := v.Interface().(type) {
	case json.Marshaler:
		var out []byte
		if out, err = m.MarshalJSON(); err == nil {
			err = checkJSON(out)
		}
	case encoding.TextMarshaler:
		_, err = m.MarshalText()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func textKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	}
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

const (
	tooDeep = "it is deeper than 1000 levels, or contains itself"
	badKey  = "a key of the map is not valid UTF-8"
)
