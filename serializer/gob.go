package serializer

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"fmt"
	"io"
	"reflect"

	"github.com/sagestore/sagestore/tiers"
)

// Gob is the codec of package encoding/gob, for values that only Go reads. gob
// drops what it takes for zero, such as empty lists and pointers to zero in
// fields, so every value is decoded again when it is saved and refused, with the
// path of the field, unless it comes back equal. That makes saves dearer than
// loads. Types inside interfaces have to be registered with gob.Register.
// Pickles of Python are never decoded.
func Gob() Codec {
	an := &anatomist{tag: "gob", pairs: gobPairs()}
	return &gobCodec{
		anatomist: an,
		inspector: inspector{anatomist: an, typed: true, kinds: func(reflect.Kind) bool { return true }},
	}
}

func gobPairs() []pair {
	return []pair{
		{reflect.TypeFor[gob.GobEncoder](), reflect.TypeFor[gob.GobDecoder]()},
		{reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler]()},
		{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()},
	}
}

type gobCodec struct {
	*anatomist
	inspector inspector
}

func (c *gobCodec) Name() string { return "gob" }

func (c *gobCodec) Append(dst []byte, v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	if !rv.IsValid() || rv.Kind() == reflect.Pointer {
		return dst, refuse("gob can't hold a nil value")
	}
	if a := c.of(rv.Type()); a.walked() {
		if f := (&inspection{inspector: &c.inspector}).value(rv, 0, 0); f != "" {
			return dst, refuse(f)
		}
	}
	start := len(dst)
	out := bytes.NewBuffer(dst)
	if err := gob.NewEncoder(out).EncodeValue(rv); err != nil {
		if f := c.unregistered(rv, ""); f != "" {
			return dst, refuse(f)
		}
		return dst, fmt.Errorf("%w: %w", tiers.ErrType, err)
	}
	back := reflect.New(rv.Type())
	if err := c.Decode(out.Bytes()[start:], back.Interface()); err != nil {
		return dst, fmt.Errorf("%w: %s can be encoded and not be decoded: %w", tiers.ErrType, rv.Type(), err)
	}
	if f := c.differ(rv, back.Elem(), ""); f != "" {
		return dst, refuse(f)
	}
	return out.Bytes(), nil
}

func (c *gobCodec) Decode(src []byte, v any) error {
	if len(src) > 1 && src[0] == 0x80 && src[1] >= 2 && src[1] <= 5 {
		return tiers.Hint(fmt.Errorf("%w: these are the bytes of a Python pickle, which is never decoded", tiers.ErrCorrupt),
			"export the values from Python as JSON and import them")
	}
	if err := checkGob(src); err != nil {
		return err
	}
	if err := gob.NewDecoder(bytes.NewReader(src)).Decode(v); err != nil {
		t := reflect.TypeOf(v).Elem()
		return &mismatch{text: fmt.Sprintf("the gob value does not fit %s: %v", t, err), wanted: t, err: err}
	}
	return nil
}

// unregistered finds the value inside an interface that gob does not know, or
// does not take for another reason.
func (c *gobCodec) unregistered(v reflect.Value, path string) string {
	if c.visitOwn(&anatomy{}, v.Type(), true) {
		return ""
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return ""
		}
		if f := c.unregistered(v.Elem(), path); f != "" {
			return f
		}
		held := struct{ V any }{v.Elem().Interface()}
		if err := gob.NewEncoder(io.Discard).Encode(&held); err != nil {
			return at(path, fmt.Sprintf("%s inside an interface: %v", v.Elem().Type(), err))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return c.unregistered(v.Elem(), path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if nilPointer(v.Index(i)) {
				return at(path+index(i), "gob can't hold a nil pointer in a list")
			}
			if f := c.unregistered(v.Index(i), path+index(i)); f != "" {
				return f
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			inner := join(path, fmt.Sprint(it.Key()))
			if nilPointer(it.Value()) {
				return at(inner, "gob can't hold a nil pointer in a map")
			}
			if f := c.unregistered(it.Value(), inner); f != "" {
				return f
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if fault := c.unregistered(v.Field(i), join(path, f.Name)); fault != "" {
					return fault
				}
			}
		}
	default:
	}
	return ""
}

func nilPointer(v reflect.Value) bool { return v.Kind() == reflect.Pointer && v.IsNil() }
