// Package serializer turns values into records and back.
//
// A [Registry] holds codecs by name: json, msgpack, gob and raw are built in,
// an app adds its own. Each record names the codec that made it, so that a
// change of configuration never makes old records unreadable:
//
//	r, err := serializer.New()
//	rec, err := r.Encode(key, prefs, serializer.Options{Codec: "msgpack", Schema: 1})
//	err = r.Decode(rec, &prefs)
//
// Plain JSON stays readable text. Everything else travels in an envelope with a
// checksum, optionally compressed (zstd) and encrypted (AES-256-GCM), whose
// bytes docs/FORMAT.md gives. The same page says what becomes of every hard
// value, such as integers beyond 2^53, zones of times, NaN and empty lists: it
// is either loaded as documented or refused at save, with the path of the field
// and [tiers.ErrType].
package serializer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/tiers"
)

// Codec turns values into bytes and back. It is safe for concurrent use.
type Codec interface {
	// Name is stored with each record: 1 to 32 of a-z, 0-9, "_" and "-",
	// beginning with a letter. It never changes once records exist.
	Name() string
	// Append appends the encoding of v to dst and answers the result. A v that
	// is a pointer is encoded as what it points to: collections pass one. It
	// refuses what Decode could not bring back.
	Append(dst []byte, v any) ([]byte, error)
	// Decode fills what v points to: a *T, or a **T for a T that is a pointer
	// itself. src is lent for the call and must be neither changed nor kept. After an error
	// what v points to is undefined.
	Decode(src []byte, v any) error
}

// Keys are the encryption keys, of 32 bytes each. They are asked on each use
// and must be safe for concurrent use.
type Keys interface {
	// Current answers the key for new records and its id, 1 to 64 bytes, which
	// is stored with them in the clear.
	Current() (id string, key []byte, err error)
	// Key answers the key of that id.
	Key(id string) ([]byte, error)
}

// DefaultLimit bounds an encoded value in bytes, before compression.
const DefaultLimit = 256 << 20

const longestName = 32

// Registry holds the codecs of one manager. It is immutable and safe for
// concurrent use.
type Registry struct {
	codecs map[string]Codec
	keys   Keys
	limit  int64
	*shared
}

// shared is what copies of a registry have in common.
type shared struct {
	scratch sync.Pool // *[]byte
	zstd    compressor
	ciphers sync.Map // key id -> *cipherOf
}

// New answers a registry of the built-in codecs and own ones. A name that is
// taken or not well formed is ErrCodec.
func New(own ...Codec) (*Registry, error) {
	r := &Registry{codecs: map[string]Codec{}, limit: DefaultLimit, shared: &shared{}}
	for _, c := range append([]Codec{JSON(), Msgpack(), Gob(), Raw()}, own...) {
		name := c.Name()
		if err := checkName(name); err != nil {
			return nil, err
		}
		if _, taken := r.codecs[name]; taken {
			return nil, fmt.Errorf("%w: the name %q is registered twice", tiers.ErrCodec, name)
		}
		r.codecs[name] = c
	}
	return r, nil
}

// WithKeys answers a registry that encrypts and decrypts with these keys.
func (r *Registry) WithKeys(k Keys) *Registry {
	c := *r
	c.keys = k
	return &c
}

// WithLimit answers a registry with another bound on encoded values in bytes, 0
// for [DefaultLimit]. Records beyond it are neither written nor read.
func (r *Registry) WithLimit(bytes int64) *Registry {
	c := *r
	c.limit = bytes
	if bytes <= 0 {
		c.limit = DefaultLimit
	}
	return &c
}

// Codec answers the codec of that name. One that is not registered is ErrCodec,
// which names it and the nearest.
func (r *Registry) Codec(name string) (Codec, error) {
	if c, ok := r.codecs[name]; ok {
		return c, nil
	}
	hint := "registered are " + strings.Join(r.Names(), ", ")
	if near := nearest.Name(name, r.Names()); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return nil, tiers.Hint(fmt.Errorf("%w: no codec %q is registered", tiers.ErrCodec, name), hint)
}

// Names answers the names of all codecs, in order.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.codecs)) }

func checkName(name string) error {
	ok := len(name) > 0 && len(name) <= longestName && name[0] >= 'a' && name[0] <= 'z'
	for i := range len(name) {
		c := name[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("%w: %q is not a name: 1 to %d of a-z, 0-9, \"_\" and \"-\", beginning with a letter",
			tiers.ErrCodec, name, longestName)
	}
	return nil
}

// lend answers an empty scratch buffer; giveBack returns it. Large ones are
// left to the garbage collector.
func (s *shared) lend() *[]byte {
	if b, ok := s.scratch.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (s *shared) giveBack(b *[]byte) {
	if cap(*b) > 1<<20 {
		return
	}
	*b = (*b)[:0]
	s.scratch.Put(b)
}
