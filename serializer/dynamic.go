package serializer

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// dynamic gives what libraries decoded into interfaces the documented types,
// which are the same for json and msgpack: int64, uint64 for what is larger,
// float64, string, bool, nil, []any, map[string]any.
type dynamic struct {
	*anatomist
	leaf  func(any) any // the documented value for a decoded one
	times bool          // times are set to UTC as well
}

// settle goes through what v points to.
func (d *dynamic) settle(v any) {
	switch v := v.(type) {
	case *any:
		*v = d.any(*v)
	case *map[string]any:
		d.any(*v)
	case *[]any:
		d.any(*v)
	default:
		d.value(reflect.ValueOf(v).Elem())
	}
}

func (d *dynamic) any(v any) any {
	switch v := v.(type) {
	case nil, string, bool, float64, int64:
		return v
	case map[string]any:
		for k, e := range v {
			switch e.(type) {
			case nil, string, bool, float64, int64:
			case map[string]any, []any:
				d.any(e) // in place
			default:
				v[k] = d.any(e)
			}
		}
		return v
	case []any:
		for i, e := range v {
			v[i] = d.any(e)
		}
		return v
	}
	return d.leaf(v)
}

func (d *dynamic) needed(t reflect.Type) bool {
	a := d.of(t)
	return a.open || d.times && a.times
}

func (d *dynamic) value(v reflect.Value) {
	t := v.Type()
	if t == reflect.TypeFor[time.Time]() {
		if when, ok := reflect.TypeAssert[time.Time](v); ok && d.times {
			v.Set(reflect.ValueOf(when.UTC()))
		}
		return
	}
	if !d.needed(t) {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.NumMethod() == 0 && !v.IsNil() {
			v.Set(reflect.ValueOf(d.any(v.Interface())))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			d.value(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			e := reflect.New(t.Elem()).Elem()
			e.Set(it.Value())
			d.value(e)
			v.SetMapIndex(it.Key(), e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() || t.Field(i).Anonymous {
				d.value(f)
			}
		}
	default:
	}
}

// jsonLeaf turns a number into the smallest type that holds it exactly.
func jsonLeaf(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if !strings.ContainsAny(string(n), ".eE") {
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			if i == 0 && n[0] == '-' {
				return math.Copysign(0, -1)
			}
			return i
		}
		if u, err := strconv.ParseUint(string(n), 10, 64); err == nil {
			return u
		}
		return n
	}
	if f, err := strconv.ParseFloat(string(n), 64); err == nil {
		return f
	}
	return n // beyond what a float64 holds
}

// msgpackLeaf widens the sized numbers that the library answers.
func msgpackLeaf(v any) any {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v)
		}
	case float32:
		return float64(v)
	case time.Time:
		return v.UTC()
	}
	return v
}
