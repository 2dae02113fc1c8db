package redis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// Offsets in a stored value; the package comment has the table.
const (
	atVersion = 2
	atCreated = 10
	atUpdated = 18
	atExpires = 26
	atTwin    = 34 // all from atVersion again
	atSum     = 66
	headLen   = 70
	bodyLen   = 6 // of the body, before the codec's name
)

// What a stored value begins with tells whether its key is in the index.
const (
	magicIndexed = "s1"
	magicPlain   = "s2"
)

// maxVersion is the highest version that a script can count with: the numbers
// of Lua are exact up to 2^53.
const maxVersion = 1<<53 - 2

// encode answers the stored value of a record. Version and times are those of
// the record.
func encode(r *tiers.Record, magic string) (value []byte, err error) {
	b, err := encodeBody(r)
	if err != nil {
		return nil, err
	}
	copy(b, magic)
	binary.BigEndian.PutUint64(b[atVersion:], uint64(r.Version))
	binary.BigEndian.PutUint64(b[atCreated:], bits(tiers.ToMicro(r.Created)))
	binary.BigEndian.PutUint64(b[atUpdated:], bits(tiers.ToMicro(r.Updated)))
	binary.BigEndian.PutUint64(b[atExpires:], bits(tiers.ToMicro(r.Expires)))
	copy(b[atTwin:atSum], b[atVersion:atTwin])
	return b, nil
}

// encodeBody answers the stored value of a record with the part of its head
// empty that the script that saves makes.
func encodeBody(r *tiers.Record) (value []byte, err error) {
	if len(r.Codec) > 255 {
		return nil, fmt.Errorf("%w: its name has %d bytes, 255 are allowed", tiers.ErrCodec, len(r.Codec))
	}
	b := make([]byte, headLen, headLen+bodyLen+len(r.Codec)+len(r.Value))
	b = append(b, byte(r.Flags))
	b = binary.BigEndian.AppendUint32(b, r.Schema)
	b = append(b, byte(len(r.Codec))) //nolint:gosec // at most 255
	b = append(b, r.Codec...)
	b = append(b, r.Value...)
	binary.BigEndian.PutUint32(b[atSum:], sumOf(r.Key, b[headLen:]))
	return b, nil
}

// decodeHead fills in what the first bytes of a stored value say: everything
// but the value, whose checksum it can't know.
func decodeHead(k tiers.Key, b []byte) (r tiers.Record, body []byte, err error) {
	if len(b) < headLen+bodyLen || string(b[:atVersion]) != magicIndexed && string(b[:atVersion]) != magicPlain {
		return tiers.Record{}, nil, fmt.Errorf("%w: what redis holds under this key is no record of this program", tiers.ErrCorrupt)
	}
	if !bytes.Equal(b[atVersion:atTwin], b[atTwin:atSum]) {
		return tiers.Record{}, nil, fmt.Errorf("%w: the two copies of its version and times differ", tiers.ErrCorrupt)
	}
	r.Key = k
	if r.Version = tiers.Version(binary.BigEndian.Uint64(b[atVersion:])); r.Version < 1 || r.Version > maxVersion {
		return tiers.Record{}, nil, fmt.Errorf("%w: its version is impossible", tiers.ErrCorrupt)
	}
	r.Created = tiers.FromMicro(int64At(b[atCreated:]))
	r.Updated = tiers.FromMicro(int64At(b[atUpdated:]))
	r.Expires = tiers.FromMicro(int64At(b[atExpires:]))
	body = b[headLen:]
	r.Flags = tiers.Flags(body[0])
	r.Schema = binary.BigEndian.Uint32(body[1:])
	if n := int(body[5]); len(body) >= bodyLen+n {
		r.Codec = codecName(body[bodyLen : bodyLen+n])
		return r, body, nil
	}
	return tiers.Record{}, nil, fmt.Errorf("%w: it was cut off", tiers.ErrCorrupt)
}

// decode answers the record in a stored value; Value aliases b.
func decode(k tiers.Key, b []byte) (tiers.Record, error) {
	r, body, err := decodeHead(k, b)
	if err != nil {
		return tiers.Record{}, err
	}
	if sumOf(k, body) != binary.BigEndian.Uint32(b[atSum:]) {
		return tiers.Record{}, fmt.Errorf("%w: its checksum is wrong", tiers.ErrCorrupt)
	}
	value := body[bodyLen+len(r.Codec):]
	r.Value = slices.Clip(value)
	return r, nil
}

// codecName saves the allocation for the names that nearly all records have.
func codecName(b []byte) string {
	switch string(b) {
	case "json":
		return "json"
	case "msgpack":
		return "msgpack"
	case "gob":
		return "gob"
	case "raw":
		return "raw"
	}
	return string(b)
}

func sumOf(k tiers.Key, body []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the package, and hardware does the work
	var buf [256]byte
	key := append(buf[:0], k.Namespace...)
	key = append(key, 0)
	key = append(key, k.Category...)
	key = append(key, 0)
	key = append(key, k.Name...)
	key = append(key, 0)
	return crc32.Update(crc32.Checksum(key, table), table, body)
}

// bits and int64At write and read signed numbers, two's complement.
func bits(n int64) uint64 { return uint64(n) } //nolint:gosec // see above

func int64At(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) } //nolint:gosec // see above

// count32 is for counts that maxBatch bounds.
func count32(n int) uint32 { return uint32(n) } //nolint:gosec // see above
