package serializer

import (
	"fmt"
	"reflect"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/tiers"
)

// Options say how one value is encoded. The zero value is plain JSON.
type Options struct {
	Codec        string // name; json when empty
	Schema       uint32 // number of the app's Go type; 0 counts as 1
	CompressOver int    // values of more bytes are compressed, if that makes them smaller; 0: never
	Encrypt      bool   // with the current key
	Max          int64  // bytes of the encoded value before compression; 0: only the registry's limit
}

// Encode answers the record that holds v under k: its Value, Codec, Schema and
// Flags. v may be a T or a *T, which give the same bytes. Errors are *tiers.Error
// with the key: ErrCodec, ErrType for what the codec can't bring back, with the
// path of the field, and ErrTooLarge. Value is the caller's own.
func (r *Registry) Encode(k tiers.Key, v any, o Options) (tiers.Record, error) {
	rec, err := r.encode(k, v, o)
	if err != nil {
		return tiers.Record{}, tiers.Fail("save", "", k, err)
	}
	return rec, nil
}

func (r *Registry) encode(k tiers.Key, v any, o Options) (tiers.Record, error) {
	if o.Codec == "" {
		o.Codec = "json"
	}
	if o.Schema == 0 {
		o.Schema = 1
	}
	codec, err := r.Codec(o.Codec)
	if err != nil {
		return tiers.Record{}, err
	}
	rec := tiers.Record{Key: k, Codec: o.Codec, Schema: o.Schema}
	if o.Codec == "json" && !o.Encrypt && o.CompressOver <= 0 {
		rec.Value, err = codec.Append(nil, saved(v))
		if err == nil {
			err = r.checkSize(len(rec.Value), o.Max)
		}
		return rec, err
	}

	scratch := r.lend()
	defer r.giveBack(scratch)
	*scratch, err = codec.Append((*scratch)[:0], saved(v))
	if err != nil {
		return rec, err
	}
	payload := *scratch
	if err := r.checkSize(len(payload), o.Max); err != nil {
		return rec, err
	}
	h := envelope.Header{Codec: o.Codec, Schema: o.Schema, Size: uint64(len(payload))}
	if o.CompressOver > 0 && len(payload) > o.CompressOver {
		squeezed := r.lend()
		defer r.giveBack(squeezed)
		*squeezed = r.zstd.compress((*squeezed)[:0], payload)
		if len(*squeezed) < len(payload) {
			payload = *squeezed
			h.Flags |= tiers.Compressed
		}
	}
	if o.Encrypt {
		rec.Value, h, err = r.seal(k, h, payload)
		if err != nil {
			return rec, err
		}
	} else if h.Flags == 0 && o.Codec == "json" {
		rec.Value = append([]byte(nil), payload...)
		return rec, nil
	} else {
		rec.Value = envelope.Append(nil, h, payload)
	}
	rec.Flags = h.Flags | tiers.Enveloped
	return rec, nil
}

func (r *Registry) checkSize(n int, most int64) error {
	if most <= 0 || most > r.limit {
		most = r.limit
	}
	if int64(n) > most {
		return tiers.Hint(fmt.Errorf("%w: the encoded value has %d bytes, %d are allowed", tiers.ErrTooLarge, n, most),
			"raise max_value of the category, or split the value")
	}
	return nil
}

// saved answers what is to be encoded for v. A pointer to an interface is that
// interface's value, so that For[any] and an untyped save give the same bytes.
func saved(v any) any {
	if p, ok := v.(*any); ok {
		if p == nil {
			return nil
		}
		return *p
	}
	return v
}

// addressable answers a pointer to a copy of what v holds, so that marshalers
// with pointer receivers are found like in a value that is pointed to.
func addressable(v any) any {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}
