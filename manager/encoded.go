package manager

import (
	"encoding/json"
	"fmt"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// Encoded is a value that a codec has encoded already. Saved without a type, it
// is stored as it is; only JSON is looked into. An untyped load into an *Encoded
// answers what is stored, decrypted and decompressed.
type Encoded struct {
	Codec  string // of the category when empty
	Schema uint32 // 0: the stored record's, else 1
	Value  []byte
}

func (p *place) encodeAsIs(name string, e Encoded, o serializer.Options) (tiers.Record, error) {
	r, k := p.route, p.key(name)
	if e.Codec != "" {
		o.Codec = e.Codec
	}
	if e.Schema != 0 {
		o.Schema = e.Schema
	}
	if _, err := r.core.codecs.Codec(o.Codec); err != nil {
		return tiers.Record{}, err
	}
	switch {
	case o.Codec == "json":
		return r.core.codecs.Encode(k, json.RawMessage(e.Value), o)
	case o.Codec == "raw":
		return r.core.codecs.Encode(k, e.Value, o)
	case o.Encrypt:
		return tiers.Record{}, fmt.Errorf("%w: values encoded elsewhere can't be encrypted", tiers.ErrUnsupported)
	case int64(len(e.Value)) > o.Max:
		return tiers.Record{}, fmt.Errorf("%w: the encoded value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(e.Value), o.Max)
	}
	h := envelope.Header{Codec: o.Codec, Schema: o.Schema, Size: uint64(len(e.Value))}
	return tiers.Record{
		Key: k, Codec: o.Codec, Schema: o.Schema, Flags: tiers.Enveloped, Value: envelope.Append(nil, h, e.Value),
	}, nil
}
