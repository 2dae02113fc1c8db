package serializer

import (
	"fmt"
	"reflect"

	"github.com/sagestore/sagestore/tiers"
)

// Raw is the codec of values that are bytes already: []byte, string, and types
// made of them. Loaded into an any they are a []byte. nil and empty are the
// same empty value.
func Raw() Codec { return raw{} }

type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return append(dst, v...), nil
	case string:
		return append(dst, v...), nil
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	switch {
	case isBytes(rv):
		return append(dst, rv.Bytes()...), nil
	case rv.Kind() == reflect.String:
		return append(dst, rv.String()...), nil
	}
	return dst, tiers.Hint(fmt.Errorf("%w: the raw codec stores []byte and string, not %T", tiers.ErrType, v),
		"use the codec json or msgpack for this category")
}

func (raw) Decode(src []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = append([]byte{}, src...)
		return nil
	case *string:
		*v = string(src)
		return nil
	case *any:
		*v = append([]byte{}, src...)
		return nil
	}
	rv := reflect.ValueOf(v).Elem()
	switch {
	case isBytes(rv):
		rv.SetBytes(append([]byte{}, src...))
	case rv.Kind() == reflect.String:
		rv.SetString(string(src))
	default:
		return &mismatch{text: fmt.Sprintf("raw bytes are stored, %s is wanted", rv.Type()), wanted: rv.Type()}
	}
	return nil
}

func isBytes(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
}
