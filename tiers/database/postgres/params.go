package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// params are the parameters of a statement in the binary format, one after the other in
// one piece of memory, which serves one group after the other.
type params struct {
	buf  []byte
	ends []int
	null []bool
}

// keptParams is the most memory that is kept for the next group.
const keptParams = 1 << 20

func (p *params) reset() {
	if cap(p.buf) > keptParams {
		p.buf = nil
	}
	p.buf, p.ends, p.null = p.buf[:0], p.ends[:0], p.null[:0]
}

// put ends a parameter.
func (p *params) put(null bool) { p.ends, p.null = append(p.ends, len(p.buf)), append(p.null, null) }

func (p *params) nothing() { p.put(true) }

func (p *params) text(s string) {
	p.buf = append(p.buf, s...)
	p.put(false)
}

func (p *params) bytes(b []byte) {
	p.buf = append(p.buf, b...)
	p.put(false)
}

func (p *params) bigint(n int64) {
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(n)) //nolint:gosec // two's complement, as the server has it
	p.put(false)
}

func (p *params) integer(n int32) {
	p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(n)) //nolint:gosec // as above
	p.put(false)
}

// array begins an array of so many elements, which put ends.
func (p *params) array(oid uint32, n int) {
	dimensions := uint32(1)
	if n == 0 {
		dimensions = 0
	}
	for _, v := range []uint32{dimensions, 1, oid} { // 1: some may be NULL
		p.buf = binary.BigEndian.AppendUint32(p.buf, v)
	}
	if n > 0 {
		p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(n)) //nolint:gosec // at most those of a group
		p.buf = binary.BigEndian.AppendUint32(p.buf, 1)         // the number of the first
	}
}

func (p *params) size(n int) {
	p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(n)) //nolint:gosec // values are below 1 GiB
}

func (p *params) texts(n int, of func(i int) string)  { elements(p, pgtype.TextOID, n, of) }
func (p *params) values(n int, of func(i int) []byte) { elements(p, pgtype.ByteaOID, n, of) }

func elements[T string | []byte](p *params, oid uint32, n int, of func(i int) T) {
	p.array(oid, n)
	for i := range n {
		v := of(i)
		p.size(len(v))
		p.buf = append(p.buf, v...)
	}
	p.put(false)
}

// someTexts are texts of which nil ones are NULL.
func (p *params) someTexts(n int, of func(i int) *string) {
	p.array(pgtype.TextOID, n)
	for i := range n {
		s := of(i)
		if s == nil {
			p.size(-1)
			continue
		}
		p.size(len(*s))
		p.buf = append(p.buf, *s...)
	}
	p.put(false)
}

func (p *params) bigints(n int, of func(i int) int64) {
	p.array(pgtype.Int8OID, n)
	for i := range n {
		p.size(8)
		p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(of(i))) //nolint:gosec // as above
	}
	p.put(false)
}

func (p *params) integers(n int, of func(i int) int32) {
	p.array(pgtype.Int4OID, n)
	for i := range n {
		p.size(4)
		p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(of(i))) //nolint:gosec // as above
	}
	p.put(false)
}

// all are the parameters and their formats, until the next reset.
func (p *params) all() (values [][]byte, formats []int16) {
	values, formats = make([][]byte, len(p.ends)), make([]int16, len(p.ends))
	begin := 0
	for i, end := range p.ends {
		if formats[i] = pgtype.BinaryFormatCode; !p.null[i] {
			values[i] = p.buf[begin:end:end]
		}
		begin = end
	}
	return values, formats
}
