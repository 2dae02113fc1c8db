package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/sagestore/sagestore/tiers"
)

// A file is a header of fixed size and the value. Numbers are big-endian.
//
//	 0  magic "SGC1"
//	 4  CRC-32C of the header from byte 8 on
//	 8  CRC-32C of the value
//	12  schema
//	16  version
//	24  created, updated, expires: microseconds since 1970, 0 = never
//	48  length of the value
//	56  flags
//	57  length of the codec's name, and the name
const (
	magic        = "SGC1"
	headerSize   = 128
	codecAt      = 58
	longestCodec = headerSize - codecAt
)

// encode answers the file's content.
func encode(r tiers.Record) ([]byte, error) {
	if len(r.Codec) > longestCodec {
		return nil, tiers.Hint(fmt.Errorf("%w: the codec's name has %d bytes", tiers.ErrCodec, len(r.Codec)),
			fmt.Sprintf("give the codec a name of at most %d bytes", longestCodec))
	}
	b := make([]byte, headerSize, headerSize+len(r.Value))
	copy(b, magic)
	be := binary.BigEndian
	be.PutUint32(b[8:], checksum(r.Value))
	be.PutUint32(b[12:], r.Schema)
	be.PutUint64(b[16:], uint64(r.Version))
	be.PutUint64(b[24:], uint64(tiers.ToMicro(r.Created))) //nolint:gosec // kept bit by bit
	be.PutUint64(b[32:], uint64(tiers.ToMicro(r.Updated))) //nolint:gosec // kept bit by bit
	be.PutUint64(b[40:], uint64(tiers.ToMicro(r.Expires))) //nolint:gosec // kept bit by bit
	be.PutUint64(b[48:], uint64(len(r.Value)))
	b[56] = byte(r.Flags)
	b[57] = byte(len(r.Codec)) //nolint:gosec // bounded above
	copy(b[codecAt:], r.Codec)
	be.PutUint32(b[4:], checksum(b[8:headerSize]))
	return append(b, r.Value...), nil
}

// decodeHeader answers all but the value, the value's length and its checksum.
// lost tells that nothing of the file ever reached the disk.
func decodeHeader(b []byte) (r tiers.Record, size uint64, sum uint32, lost bool, err error) {
	if len(bytes.Trim(b, "\x00")) == 0 {
		return tiers.Record{}, 0, 0, true, nil
	}
	be := binary.BigEndian
	if len(b) < headerSize || string(b[:4]) != magic || be.Uint32(b[4:]) != checksum(b[8:headerSize]) || int(b[57]) > longestCodec {
		return tiers.Record{}, 0, 0, false, fmt.Errorf("%w: the header is damaged", tiers.ErrCorrupt)
	}
	r.Schema = be.Uint32(b[12:])
	r.Version = tiers.Version(be.Uint64(b[16:]))
	r.Created = tiers.FromMicro(int64(be.Uint64(b[24:]))) //nolint:gosec // kept bit by bit
	r.Updated = tiers.FromMicro(int64(be.Uint64(b[32:]))) //nolint:gosec // kept bit by bit
	r.Expires = tiers.FromMicro(int64(be.Uint64(b[40:]))) //nolint:gosec // kept bit by bit
	r.Flags = tiers.Flags(b[56])
	r.Codec = codecName(b[codecAt : codecAt+int(b[57])])
	return r, be.Uint64(b[48:]), be.Uint32(b[8:]), false, nil
}

// codecName saves an allocation for the usual names.
func codecName(b []byte) string {
	switch string(b) {
	case "json":
		return "json"
	case "msgpack":
		return "msgpack"
	}
	return string(b)
}

// decode answers the record of a whole file.
func decode(b []byte) (r tiers.Record, lost bool, err error) {
	r, size, sum, lost, err := decodeHeader(b[:min(len(b), headerSize)])
	if err != nil || lost {
		return r, lost, err
	}
	value := b[headerSize:]
	if uint64(len(value)) != size || checksum(value) != sum {
		return r, false, fmt.Errorf("%w: the value is damaged", tiers.ErrCorrupt)
	}
	r.Value = value
	return r, false, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
