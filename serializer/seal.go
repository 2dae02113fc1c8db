package serializer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/tiers"
)

const (
	keySize   = 32
	nonceSize = 12
	longestID = 64
)

var errNoKeys = errors.New("no encryption keys are configured")

// cipherOf is a cipher ready for use, and the key that it was made of.
type cipherOf struct {
	key  []byte
	aead cipher.AEAD
}

// seal answers the whole envelope of payload, encrypted with the current key.
func (r *Registry) seal(k tiers.Key, h envelope.Header, payload []byte) ([]byte, envelope.Header, error) {
	if r.keys == nil {
		return nil, h, tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrCodec, errNoKeys), "set encryption.current and encryption.keys")
	}
	id, key, err := r.keys.Current()
	if err != nil {
		return nil, h, fmt.Errorf("%w: the current encryption key: %w", tiers.ErrCodec, err)
	}
	if id == "" || len(id) > longestID {
		return nil, h, fmt.Errorf("%w: the id of an encryption key has 1 to %d bytes", tiers.ErrCodec, longestID)
	}
	c, err := r.cipher(id, key)
	if err != nil {
		return nil, h, err
	}
	h.Flags |= tiers.Encrypted
	h.KeyID = id
	out := make([]byte, 0, envelope.MaxHeader(h)+nonceSize+len(payload)+c.Overhead()+envelope.Trailer)
	out = envelope.AppendHeader(out, h)

	scratch := r.lend()
	defer r.giveBack(scratch)
	*scratch = bound((*scratch)[:0], out, k)
	nonce := out[len(out) : len(out)+nonceSize]
	_, _ = rand.Read(nonce) // never fails: it ends the program instead
	out = c.Seal(out[:len(out)+nonceSize], nonce, payload, *scratch)
	return envelope.Seal(out, 0), h, nil
}

// unseal appends the plain payload to dst; header is the envelope up to it.
func (r *Registry) unseal(dst []byte, k tiers.Key, h envelope.Header, header, payload []byte) ([]byte, error) {
	missing := func(err error) error {
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrCodec, err),
			fmt.Sprintf("wrong or missing encryption key: add the one with the id %q to encryption.keys", h.KeyID))
	}
	if r.keys == nil {
		return dst, missing(errNoKeys)
	}
	key, err := r.keys.Key(h.KeyID)
	if err != nil {
		return dst, missing(err)
	}
	c, err := r.cipher(h.KeyID, key)
	if err != nil {
		return dst, missing(err)
	}
	if len(payload) < nonceSize+c.Overhead() {
		return dst, fmt.Errorf("%w: the encrypted value is cut off", tiers.ErrCorrupt)
	}
	scratch := r.lend()
	defer r.giveBack(scratch)
	*scratch = bound((*scratch)[:0], header, k)
	dst, err = c.Open(dst, payload[:nonceSize], payload[nonceSize:], *scratch)
	if err != nil {
		return dst, tiers.Hint(fmt.Errorf("%w: it does not decrypt, though its checksum is right", tiers.ErrCorrupt),
			fmt.Sprintf("wrong encryption key under the id %q, or the record was moved here from another key", h.KeyID))
	}
	return dst, nil
}

// bound appends what the ciphertext is bound to: codec, schema, flags, size and
// key id, which are in the header, and the place of the record.
func bound(dst, header []byte, k tiers.Key) []byte {
	for _, part := range [][]byte{header, []byte(k.Namespace), []byte(k.Category), []byte(k.Name)} {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

func (r *Registry) cipher(id string, key []byte) (cipher.AEAD, error) {
	if c, ok := r.ciphers.Load(id); ok {
		if c, ok := c.(*cipherOf); ok && subtle.ConstantTimeCompare(c.key, key) == 1 {
			return c.aead, nil
		}
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("%w: the encryption key %q has %d bytes, %d are needed", tiers.ErrCodec, id, len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	r.ciphers.Store(id, &cipherOf{key: append([]byte{}, key...), aead: aead})
	return aead, nil
}
