package serializer

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sagestore/sagestore/tiers"
)

// Msgpack is the codec of vmihailenco/msgpack, made safe: lengths, depth and
// ranges are checked before the library decodes. Fields have the names of their
// msgpack tags, else of their json tags. In an any, whole numbers are int64 or
// uint64, others float64, bytes []byte and times time.Time. Times are in UTC.
func Msgpack() Codec {
	an := &anatomist{tag: "msgpack", pairs: msgpackPairs()}
	return &msgpackCodec{
		anatomist: an,
		inspector: inspector{anatomist: an, textKeys: true, kinds: msgpackKind},
		dynamic:   dynamic{anatomist: an, leaf: msgpackLeaf, times: true},
		shapes:    shapes{anatomist: an},
	}
}

func msgpackPairs() []pair {
	return []pair{
		{reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.CustomDecoder]()},
		{reflect.TypeFor[msgpack.Marshaler](), reflect.TypeFor[msgpack.Unmarshaler]()},
		{reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler]()},
		{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()},
	}
}

type msgpackCodec struct {
	*anatomist
	inspector inspector
	dynamic   dynamic
	shapes    shapes
	writers   sync.Pool // *msgpackWriter
	readers   sync.Pool // *msgpackReader
}

type msgpackWriter struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

type msgpackReader struct {
	src bytes.Reader
	dec *msgpack.Decoder
}

func (c *msgpackCodec) Name() string { return "msgpack" }

func (c *msgpackCodec) Append(dst []byte, v any) ([]byte, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return append(dst, msgpackNil), nil
	}
	a := c.of(t)
	if a.fault != "" {
		return dst, refuse(a.fault)
	}
	if a.byRef && t.Kind() != reflect.Pointer {
		v = addressable(v)
	}
	foreign := a.foreign
	if a.walked() {
		walk := inspection{inspector: &c.inspector}
		if f := walk.any(v, 0); f != "" {
			return dst, refuse(f)
		}
		foreign = foreign || walk.foreign
	}
	w, ok := c.writers.Get().(*msgpackWriter)
	if !ok {
		w = &msgpackWriter{enc: msgpack.NewEncoder(nil)}
	}
	w.buf.Reset()
	if err := w.encode(v); err != nil {
		if f := c.inspector.fault(v); f != "" {
			return dst, refuse(f)
		}
		return dst, fmt.Errorf("%w: %w", tiers.ErrType, err)
	}
	if foreign || a.doubtful {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if err := c.verify(a, w.buf.Bytes(), t); err != nil {
			return dst, fmt.Errorf("%w: %s can be encoded and not be decoded: %w", tiers.ErrType, t, err)
		}
	}
	dst = append(dst, w.buf.Bytes()...)
	if w.buf.Cap() <= 1<<20 {
		c.writers.Put(w)
	}
	return dst, nil
}

// verify looks at an encoding that a type made itself, or that may not be readable.
func (c *msgpackCodec) verify(a *anatomy, src []byte, t reflect.Type) error {
	if a.doubtful {
		return c.Decode(src, reflect.New(t).Interface())
	}
	return checkMsgpack(src, nil)
}

func (w *msgpackWriter) encode(v any) (err error) {
	defer recovered(&err)
	w.enc.Reset(&w.buf)
	w.enc.SetCustomStructTag("json")
	w.enc.SetSortMapKeys(true)
	w.enc.UseCompactInts(true)
	return w.enc.Encode(v)
}

func (c *msgpackCodec) Decode(src []byte, v any) error {
	t := reflect.TypeOf(v).Elem()
	if len(src) == 1 && src[0] == msgpackNil && !c.nilable(t) {
		return &mismatch{text: fmt.Sprintf("a msgpack nil is stored, %s is wanted", t), value: "null", wanted: t}
	}
	if err := checkMsgpack(src, c.shapes.of(t)); err != nil {
		return err
	}
	r, ok := c.readers.Get().(*msgpackReader)
	if !ok {
		r = &msgpackReader{dec: msgpack.NewDecoder(nil)}
	}
	if err := r.decode(src, v); err != nil {
		return &mismatch{text: fmt.Sprintf("a msgpack value does not fit %s: %v", t, err), wanted: t, err: err}
	}
	if len(src) <= 1<<16 { // a decoder keeps the room of its longest text
		c.readers.Put(r)
	}
	if c.dynamic.needed(t) {
		c.dynamic.settle(v)
	}
	return nil
}

func (r *msgpackReader) decode(src []byte, v any) (err error) {
	defer recovered(&err)
	r.src.Reset(src)
	r.dec.Reset(&r.src)
	r.dec.SetCustomStructTag("json")
	return r.dec.Decode(v)
}

// recovered turns a panic of the library, which it has for some types, into an
// error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the msgpack library can't take it: %v", p)
	}
}

func msgpackKind(k reflect.Kind) bool { return jsonKind(k) && k != reflect.Uintptr }
