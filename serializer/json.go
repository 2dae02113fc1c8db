package serializer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// JSON is the codec of package encoding/json, made exact: compact text, HTML
// characters as they are, whole numbers in an any as int64 or uint64 (those
// beyond 64 bits as json.Number), others as float64; NaN, text that is not
// UTF-8, repeated keys and what follows the value are errors.
func JSON() Codec {
	an := &anatomist{tag: "json", pairs: jsonPairs()}
	return &jsonCodec{
		anatomist: an,
		inspector: inspector{anatomist: an, finite: true, text: true, marshal: true, kinds: jsonKind},
		dynamic:   dynamic{anatomist: an, leaf: jsonLeaf},
	}
}

type jsonCodec struct {
	*anatomist
	inspector inspector
	dynamic   dynamic
	writers   sync.Pool // *jsonWriter
}

// jsonWriter is an encoder bound to its buffer, since it can't be given another.
type jsonWriter struct {
	buf bytes.Buffer
	enc *json.Encoder
}

func (c *jsonCodec) Name() string { return "json" }

func (c *jsonCodec) Append(dst []byte, v any) ([]byte, error) {
	var a *anatomy
	if t := reflect.TypeOf(v); t == nil {
		return append(dst, "null"...), nil
	} else if a = c.of(t); a.fault != "" {
		return dst, refuse(a.fault)
	} else if a.byRef && t.Kind() != reflect.Pointer {
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
	w, ok := c.writers.Get().(*jsonWriter)
	if !ok {
		w = &jsonWriter{}
		w.enc = json.NewEncoder(&w.buf)
		w.enc.SetEscapeHTML(false)
	}
	defer c.giveBack(w)
	if err := w.enc.Encode(v); err != nil {
		if f := c.inspector.fault(v); f != "" {
			return dst, refuse(f)
		}
		return dst, fmt.Errorf("%w: %w", tiers.ErrType, err)
	}
	text := w.buf.Bytes()
	text = text[:len(text)-1] // the encoder ends it in a line feed
	if err := c.check(a, foreign, text, v); err != nil {
		return dst, err
	}
	return append(dst, text...), nil
}

// check looks at the encoded text where encoding/json lets things pass.
func (c *jsonCodec) check(a *anatomy, foreign bool, text []byte, v any) error {
	// What is not UTF-8 was written as this escape. A genuine U+FFFD is not
	// escaped, and a text that spells the escape is no fault.
	if bytes.Contains(text, []byte(`\ufffd`)) {
		if f := c.inspector.fault(v); f != "" {
			return refuse(f)
		}
	}
	if foreign {
		if err := checkJSON(text); err != nil {
			if f := c.inspector.fault(v); f != "" {
				return refuse(f)
			}
			return fmt.Errorf("%w: the JSON that a type of the value made can't be read back: %v", tiers.ErrType, err) //nolint:errorlint // nothing stored is corrupt
		}
	}
	if a.doubtful {
		t := reflect.TypeOf(v)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if err := json.Unmarshal(text, reflect.New(t).Interface()); err != nil {
			return fmt.Errorf("%w: %s can be encoded and not be decoded: %w", tiers.ErrType, t, err)
		}
	}
	return nil
}

func (c *jsonCodec) giveBack(w *jsonWriter) {
	if w.buf.Cap() > 1<<20 {
		return
	}
	w.buf.Reset()
	c.writers.Put(w)
}

func (c *jsonCodec) Decode(src []byte, v any) error {
	if err := checkJSON(src); err != nil {
		return err
	}
	t := reflect.TypeOf(v).Elem()
	if string(bytes.TrimSpace(src)) == "null" && !c.nilable(t) {
		return &mismatch{text: fmt.Sprintf("a JSON null is stored, %s is wanted", t), value: "null", wanted: t}
	}
	a := c.of(t)
	if !a.open {
		return jsonError(json.Unmarshal(src, v), t)
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return jsonError(err, t)
	}
	c.dynamic.settle(v)
	return nil
}

// nilable tells whether a stored null has a value of its own in the type.
func (an *anatomist) nilable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
		return true
	default:
		return t != reflect.TypeFor[time.Time]() && an.visitOwn(&anatomy{}, t, true)
	}
}

// jsonError says what did not fit, and leaves the value out of it.
func jsonError(err error, t reflect.Type) error {
	if err == nil {
		return nil
	}
	var misfit *json.UnmarshalTypeError
	if !errors.As(err, &misfit) {
		return &mismatch{text: fmt.Sprintf("a JSON value does not fit %s: %v", t, err), wanted: t, err: err}
	}
	kind, _, outOfRange := bytes.Cut([]byte(misfit.Value), []byte(" "))
	why := fmt.Sprintf("a JSON %s is stored, %s is wanted", kind, misfit.Type)
	if outOfRange {
		why = fmt.Sprintf("the JSON %s that is stored does not fit %s", kind, misfit.Type)
	}
	if misfit.Field != "" {
		why = at(misfit.Field, why) + " in " + t.String()
	}
	return &mismatch{text: why, field: misfit.Field, value: misfit.Value, wanted: misfit.Type}
}

func jsonKind(k reflect.Kind) bool {
	switch k {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return false
	default:
		return true
	}
}

// refuse is the error of a value that could not be read back.
func refuse(fault string) error {
	return tiers.Hint(fmt.Errorf("%w: %s", tiers.ErrType, fault), "the value could not be read back; nothing was stored")
}
