package database

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sagestore/sagestore/tiers"
)

// meta packs what stands beside a value into one text column, for statements that
// answer one row: there a column costs the driver a tenth of the read. unpackMeta is
// the inverse.
const meta = `version||' '||created||' '||updated||' '||expires||' '||schema||' '||flags||' '||codec`

func unpackMeta(text string, r *tiers.Record) error {
	var n [6]int64
	rest := text
	for i := range n {
		field, tail, ok := strings.Cut(rest, " ")
		v, err := strconv.ParseInt(field, 10, 64)
		if !ok || err != nil {
			return fmt.Errorf("%w: its row can't be read", tiers.ErrCorrupt)
		}
		n[i], rest = v, tail
	}
	r.Codec = rest
	return setMeta(n, r)
}

// metaColumns are the same as columns, for statements that answer many rows: there
// the packing would cost more.
const metaColumns = `version, created, updated, expires, schema, flags, codec`

// unpackRow fills a record from the columns metaColumns and value.
func unpackRow(row []driver.Value, r *tiers.Record) error {
	var n [6]int64
	for i := range n {
		v, ok := row[i].(int64)
		if !ok {
			return fmt.Errorf("%w: its row can't be read", tiers.ErrCorrupt)
		}
		n[i] = v
	}
	r.Codec, _ = row[6].(string)
	if err := setMeta(n, r); err != nil {
		return err
	}
	return setValue(row[7], r)
}

// setMeta takes version, created, updated, expires, schema and flags.
func setMeta(n [6]int64, r *tiers.Record) error {
	if n[0] < 1 || n[4] < 0 || n[5] < 0 {
		return fmt.Errorf("%w: its row holds impossible numbers", tiers.ErrCorrupt)
	}
	r.Version = tiers.Version(n[0]) //nolint:gosec // checked above
	r.Created = tiers.FromMicro(n[1])
	r.Updated = tiers.FromMicro(n[2])
	r.Expires = tiers.FromMicro(n[3])
	r.Schema = uint32(n[4])                       //nolint:gosec // written from a uint32
	r.Flags = tiers.Flags(n[5] & (isIndexed - 1)) // what is above says where it is in the index
	return nil
}

// unpack fills a record from the two columns meta and value.
func unpack(packed, value driver.Value, r *tiers.Record) error {
	text, ok := packed.(string)
	if !ok {
		return fmt.Errorf("%w: its row can't be read", tiers.ErrCorrupt)
	}
	if err := unpackMeta(text, r); err != nil {
		return err
	}
	return setValue(value, r)
}

func setValue(value driver.Value, r *tiers.Record) error {
	switch v := value.(type) {
	case string:
		r.Value = []byte(v)
	case []byte:
		r.Value = v
	default:
		return fmt.Errorf("%w: its value is stored as %T, not as text or blob", tiers.ErrCorrupt, value)
	}
	if r.Value == nil {
		r.Value = []byte{}
	}
	return nil
}

// pack answers a value as SQLite is to store it: plain JSON as TEXT, so that
// json_extract works on it, everything else as BLOB. The answer shares no memory
// with the record.
func pack(r *tiers.Record) driver.Value {
	if r.Codec == "json" && r.Flags == 0 && json.Valid(r.Value) && utf8.Valid(r.Value) {
		return string(r.Value)
	}
	return append([]byte{}, r.Value...)
}
