package serializer

import (
	"fmt"
	"math"
	"reflect"
	"time"
)

// differ answers where a value that was loaded is not the one that was saved,
// and how, or "". nil and empty are different; a NaN is equal to a NaN. Values
// must not contain themselves. A type that encodes itself, and does not say what
// equal is, is trusted.
func (an *anatomist) differ(saved, loaded reflect.Value, path string) string {
	if !saved.IsValid() || !loaded.IsValid() {
		if saved.IsValid() != loaded.IsValid() {
			return at(path, "it would come back as nil")
		}
		return ""
	}
	if saved.Type() != loaded.Type() {
		return at(path, fmt.Sprintf("%s would come back as %s", saved.Type(), loaded.Type()))
	}
	if equal, known := ownEqual(saved, loaded); known {
		if !equal {
			return at(path, fmt.Sprintf("the %s would not come back equal", saved.Type()))
		}
		return ""
	}
	if an.visitOwn(&anatomy{}, saved.Type(), true) {
		return ""
	}
	switch saved.Kind() {
	case reflect.Interface:
		return an.differ(saved.Elem(), loaded.Elem(), path)
	case reflect.Pointer:
		if saved.IsNil() != loaded.IsNil() {
			return at(path, "the pointer would come back as "+nilOr(loaded))
		}
		return an.differ(saved.Elem(), loaded.Elem(), path)
	case reflect.Slice, reflect.Map, reflect.Chan, reflect.Func:
		if saved.IsNil() != loaded.IsNil() {
			return at(path, fmt.Sprintf("the %s would come back as %s", nilOr(saved)+" "+saved.Kind().String(), nilOr(loaded)))
		}
		if saved.Kind() == reflect.Map {
			return an.differMap(saved, loaded, path)
		}
		if saved.Kind() == reflect.Slice {
			return an.differList(saved, loaded, path)
		}
		return ""
	case reflect.Array:
		return an.differList(saved, loaded, path)
	case reflect.Struct:
		for i := range saved.NumField() {
			if f := an.differ(saved.Field(i), loaded.Field(i), join(path, saved.Type().Field(i).Name)); f != "" {
				return f
			}
		}
		return ""
	case reflect.Float32, reflect.Float64:
		if math.Float64bits(saved.Float()) == math.Float64bits(loaded.Float()) || math.IsNaN(saved.Float()) && math.IsNaN(loaded.Float()) {
			return ""
		}
	default:
		if saved.Equal(loaded) {
			return ""
		}
	}
	return at(path, "it would come back as another value; gob leaves out unexported fields and what it takes for zero")
}

func (an *anatomist) differList(saved, loaded reflect.Value, path string) string {
	if saved.Len() != loaded.Len() {
		return at(path, fmt.Sprintf("its %d elements would come back as %d", saved.Len(), loaded.Len()))
	}
	for i := range saved.Len() {
		if f := an.differ(saved.Index(i), loaded.Index(i), path+index(i)); f != "" {
			return f
		}
	}
	return ""
}

func (an *anatomist) differMap(saved, loaded reflect.Value, path string) string {
	if saved.Len() != loaded.Len() {
		return at(path, fmt.Sprintf("its %d entries would come back as %d", saved.Len(), loaded.Len()))
	}
	for it := saved.MapRange(); it.Next(); {
		if f := an.differ(it.Value(), loaded.MapIndex(it.Key()), join(path, fmt.Sprint(it.Key()))); f != "" {
			return f
		}
	}
	return ""
}

// ownEqual asks a type that says itself what equal is, such as time.Time.
func ownEqual(a, b reflect.Value) (equal, known bool) {
	if !a.CanInterface() {
		return false, false
	}
	if t, ok := reflect.TypeAssert[time.Time](a); ok {
		u, _ := reflect.TypeAssert[time.Time](b)
		_, one := t.Zone()
		_, other := u.Zone()
		return t.Equal(u) && one == other, true
	}
	m := a.MethodByName("Equal")
	if !m.IsValid() {
		return false, false
	}
	if t := m.Type(); t.NumIn() != 1 || t.In(0) != a.Type() || t.NumOut() != 1 || t.Out(0).Kind() != reflect.Bool || t.IsVariadic() {
		return false, false
	}
	if nilPointer(a) || nilPointer(b) {
		return false, false
	}
	return m.Call([]reflect.Value{b})[0].Bool(), true
}

func nilOr(v reflect.Value) string {
	if v.IsNil() {
		return "nil"
	}
	return "empty"
}
