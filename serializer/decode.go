package serializer

import (
	"fmt"
	"reflect"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/tiers"
)

// Decode replaces what into points to by the record's value, by the record's own codec:
// a *T, or a **T for a T that is a pointer itself. Errors are *tiers.Error with
// the key: ErrCodec for a codec or an encryption key that is not there,
// ErrCorrupt for bytes that are not what was saved, ErrType for a value that
// does not fit, which names both types, ErrTooLarge. After an error what into
// points to is undefined.
func (r *Registry) Decode(rec tiers.Record, into any) error {
	return tiers.Fail("load", "", rec.Key, r.decode(&rec, into))
}

func (r *Registry) decode(rec *tiers.Record, into any) error {
	if p := reflect.ValueOf(into); p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("%w: a value can be loaded into a pointer, not into %T", tiers.ErrType, into)
	}
	codec, err := r.Codec(rec.Codec)
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().SetZero() // codecs would merge into what is there
	scratch := r.lend()
	defer r.giveBack(scratch)
	payload, err := r.open(rec, scratch)
	if err != nil {
		return err
	}
	return codec.Decode(payload, into)
}

// Payload answers the bytes that the record's codec made, decrypted and
// decompressed: what a raw export, or a check of a backup, wants. They are the
// caller's own. Its errors are those of [Registry.Decode].
func (r *Registry) Payload(rec tiers.Record) ([]byte, error) {
	scratch := r.lend()
	defer r.giveBack(scratch)
	payload, err := r.open(&rec, scratch)
	if err != nil {
		return nil, tiers.Fail("load", "", rec.Key, err)
	}
	return append([]byte{}, payload...), nil
}

// open answers the codec's bytes: the record's own, or made in scratch.
func (r *Registry) open(rec *tiers.Record, scratch *[]byte) ([]byte, error) {
	if rec.Flags&tiers.Enveloped == 0 {
		if rec.Flags != 0 {
			return nil, fmt.Errorf("%w: it is said to be compressed or encrypted, and has no envelope", tiers.ErrCorrupt)
		}
		return rec.Value, r.checkSize(len(rec.Value), 0)
	}
	h, payload, err := envelope.Parse(rec.Value)
	if err != nil {
		return nil, err
	}
	if h.Codec != rec.Codec || h.Schema != rec.Schema || h.Flags|tiers.Enveloped != rec.Flags {
		return nil, fmt.Errorf("%w: the envelope says codec %s, schema %d; the record says %s, %d",
			tiers.ErrCorrupt, h.Codec, h.Schema, rec.Codec, rec.Schema)
	}
	if h.Size > uint64(max(r.limit, 0)) {
		return nil, fmt.Errorf("%w: the stored value has %d bytes, %d are allowed", tiers.ErrTooLarge, h.Size, r.limit)
	}
	if h.Flags&tiers.Encrypted != 0 {
		*scratch, err = r.unseal((*scratch)[:0], rec.Key, h, rec.Value[:len(rec.Value)-len(payload)-envelope.Trailer], payload)
		if err != nil {
			return nil, err
		}
		payload = *scratch
	}
	if h.Flags&tiers.Compressed != 0 {
		plain := r.lend()
		defer r.giveBack(plain)
		*plain, err = r.zstd.decompress((*plain)[:0], payload, h.Size)
		if err != nil {
			return nil, err
		}
		*scratch, *plain = *plain, *scratch
		payload = *scratch
	}
	if uint64(len(payload)) != h.Size {
		return nil, fmt.Errorf("%w: the value has %d bytes, %d were saved", tiers.ErrCorrupt, len(payload), h.Size)
	}
	return payload, nil
}
