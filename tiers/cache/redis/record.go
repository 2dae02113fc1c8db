package redis

import (
	"crypto/sha1" //nolint:gosec // a checksum that the server's scripts can compute too, not a signature
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"

	"github.com/sagestore/sagestore/tiers"
)

// Offsets in a stored value; the package comment has the table.
const (
	atVersion = 2
	atCreated = 10
	atUpdated = 18
	atExpires = 26
	atSum     = 34
	atCheck   = 38
	headLen   = 46
	bodyLen   = 6 // of the body, before the codec's name

	magic = "s1"
)

// maxVersion is the highest version that a script can count with: the numbers
// of Lua are exact up to 2^53.
const maxVersion = 1<<53 - 2

// encodeBody answers what follows the head, and its checksum, which covers the
// key as well: a value under a wrong key is corrupt.
func encodeBody(r *tiers.Record) (body []byte, sum uint32, err error) {
	if len(r.Codec) > 255 {
		return nil, 0, fmt.Errorf("%w: its name has %d bytes, 255 are allowed", tiers.ErrCodec, len(r.Codec))
	}
	body = make([]byte, 0, bodyLen+len(r.Codec)+len(r.Value))
	body = append(body, byte(r.Flags))
	body = binary.BigEndian.AppendUint32(body, r.Schema)
	body = append(body, byte(len(r.Codec)))
	body = append(body, r.Codec...)
	body = append(body, r.Value...)
	return body, sumOf(r.Key, body), nil
}

// encode answers the whole stored value of a record that has its version.
func encode(r *tiers.Record) ([]byte, error) {
	body, sum, err := encodeBody(r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, headLen+len(body))
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Version))
	for _, us := range []int64{tiers.ToMicro(r.Created), tiers.ToMicro(r.Updated), tiers.ToMicro(r.Expires)} {
		b = binary.BigEndian.AppendUint64(b, uint64(us))
	}
	b = binary.BigEndian.AppendUint32(b, sum)
	b = appendCheck(b, b)
	return append(b, body...), nil
}

// decodeHead fills in what the first bytes of a stored value say: everything
// but the value, whose checksum it can't know.
func decodeHead(k tiers.Key, b []byte) (r tiers.Record, body []byte, err error) {
	if len(b) < headLen+bodyLen || string(b[:atVersion]) != magic {
		return tiers.Record{}, nil, fmt.Errorf("%w: what redis holds under this key is no record of this program", tiers.ErrCorrupt)
	}
	if string(appendCheck(make([]byte, 0, 8), b)) != string(b[atCheck:headLen]) {
		return tiers.Record{}, nil, fmt.Errorf("%w: the checksum of its head is wrong", tiers.ErrCorrupt)
	}
	r.Key = k
	r.Version = tiers.Version(binary.BigEndian.Uint64(b[atVersion:]))
	r.Created = tiers.FromMicro(int64(binary.BigEndian.Uint64(b[atCreated:])))
	r.Updated = tiers.FromMicro(int64(binary.BigEndian.Uint64(b[atUpdated:])))
	r.Expires = tiers.FromMicro(int64(binary.BigEndian.Uint64(b[atExpires:])))
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
	r.Value = value[:len(value):len(value)]
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

// appendCheck appends the checksum of a head: the first eight hexadecimal
// digits of the SHA-1 of what comes before it.
func appendCheck(b, head []byte) []byte {
	sum := sha1.Sum(head[:atCheck]) //nolint:gosec // see the import
	return hex.AppendEncode(b, sum[:4])
}
