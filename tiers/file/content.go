package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

// deepest is how deep JSON may nest and still be indented. Indenting costs
// depth times lines, so that 20 kB of brackets would become 200 MB.
const deepest = 100

// longestCodec bounds a codec's escaped name, so that the file's name fits.
const longestCodec = 48

// encode answers the ending and the content of the file for a record.
func encode(r tiers.Record) (ending string, content []byte, err error) {
	if r.Codec == "json" && r.Flags == 0 {
		if content, ok := indent(r.Value); ok {
			return plainEnding, content, nil
		}
	}
	name := r.Codec
	if name == "" {
		name = "raw"
	}
	name = filetree.EscapeEnding(name)
	if len(name) > longestCodec {
		return "", nil, tiers.Hint(fmt.Errorf("%w: the codec's name %q does not fit into the name of a file", tiers.ErrCodec, r.Codec),
			fmt.Sprintf("give the codec a name of at most %d bytes", longestCodec))
	}
	ending = "." + name + envelopeEnding
	if r.Flags&tiers.Enveloped != 0 && carries(r) {
		return ending, r.Value, nil
	}
	return ending, wrap(r), nil
}

// carries tells whether the value is an envelope that says of itself all that
// the record says of it.
func carries(r tiers.Record) bool {
	var got tiers.Record
	return unwrap(&got, r.Value) == nil && got.Flags == r.Flags && got.Codec == r.Codec && got.Schema == r.Schema &&
		len(got.Value) == len(r.Value)
}

// wrap makes an envelope of a value that comes without one. Behind the value is
// a byte with the record's flags; by it, the payload is one byte longer than the
// size in the header, such envelopes are told from those that are values
// themselves.
func wrap(r tiers.Record) []byte {
	payload := append(append(make([]byte, 0, len(r.Value)+1), r.Value...), byte(r.Flags))
	return envelope.Append(nil, envelope.Header{Codec: r.Codec, Schema: r.Schema, Size: uint64(len(r.Value))}, payload)
}

// unwrap fills value, codec, schema and flags from the content of a .sage file,
// which becomes the record's.
func unwrap(r *tiers.Record, content []byte) error {
	h, payload, err := envelope.Parse(content)
	if err != nil {
		return err
	}
	r.Codec, r.Schema = h.Codec, h.Schema
	if h.Flags == 0 && uint64(len(payload)) == h.Size+1 {
		r.Value, r.Flags = payload[:h.Size:h.Size], tiers.Flags(payload[h.Size])
		return nil
	}
	r.Value, r.Flags = content, tiers.Enveloped|h.Flags
	return nil
}

// indent makes JSON readable. ok is false when that could not be undone: when
// the value is no JSON, or has white space between its tokens.
func indent(value []byte) (content []byte, ok bool) {
	depth, compact := shape(value)
	if !compact {
		return nil, false
	}
	var b bytes.Buffer
	b.Grow(len(value)*3/2 + 16)
	if depth <= deepest {
		if json.Indent(&b, value, "", "  ") != nil {
			return nil, false
		}
	}
	if depth > deepest || b.Len() > filetree.MaxValue { // which is what is read of a file
		b.Reset()
		if !json.Valid(value) {
			return nil, false
		}
		b.Write(value)
	}
	b.WriteByte('\n')
	return b.Bytes(), true
}

// shape answers how deep JSON nests, and whether it has no white space between
// its tokens. Of what is no JSON it says nothing sensible.
func shape(value []byte) (deepest int, compact bool) {
	depth := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			for i++; i < len(value) && value[i] != '"'; i++ {
				if value[i] == '\\' {
					i++
				}
			}
		case ' ', '\t', '\n', '\r':
			return deepest, false
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest, true
}

// compact undoes what indent and people do. The error names path and line.
func compact(content []byte, path string) ([]byte, error) {
	// Some editors put a byte order mark in front.
	text := bytes.TrimPrefix(content, []byte("\xEF\xBB\xBF"))
	b := bytes.NewBuffer(make([]byte, 0, len(text)))
	err := json.Compact(b, text)
	if err == nil {
		return b.Bytes(), nil
	}
	// Compact does not say where; Unmarshal does.
	var raw json.RawMessage
	if located := json.Unmarshal(text, &raw); located != nil {
		err = located
	}
	line := 1 + bytes.Count(text, []byte("\n"))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset <= int64(len(text)) {
		// The offset is that behind the byte which does not fit.
		line = 1 + bytes.Count(text[:max(syntax.Offset-1, 0)], []byte("\n"))
	}
	return nil, tiers.Hint(fmt.Errorf("%w: %s:%d: %w", tiers.ErrCorrupt, path, line, err),
		"mend the file, or delete the record to give it up")
}
