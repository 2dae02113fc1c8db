package database

import (
	"database/sql/driver"
	"hash/maphash"

	"github.com/sagestore/sagestore/tiers"
)

// A row that is found by its rowid and answers nothing costs half of an upsert that
// has to search for the key and to answer when the record was created.
const (
	replaceRow = `UPDATE records SET codec = ?, schema = ?, flags = ?, version = ?, updated = ?, expires = ?, value = ?
		WHERE rowid = ? AND +namespace = ? AND +category = ? AND +key = ? AND created = ? AND (+expires = 0 OR +expires > ?)
		AND +flags < 256`
	replaceVersion = replaceRow + ` AND version = ?`
)

// hintCount is how many hints are kept, a power of two. They take 768 KiB.
const hintCount = 1 << 15

// hints remember which row holds a key and when it was created. Nothing rests on
// them but speed: the statement that uses one checks all that it says, so that it
// changes nothing where the row has gone or was made anew since, by whomever.
type hints struct {
	seed maphash.Seed
	all  []hint
}

type hint struct {
	sum            uint64 // of the key
	rowid, created int64
}

// find answers the hint for a key. Without one it answers what keep needs to know
// of the key.
func (h *hints) find(k tiers.Key) (_ hint, known bool) {
	sum := maphash.Comparable(h.seed, k)
	if h.all != nil {
		for _, i := range places(sum) {
			if at := h.all[i]; at.sum == sum && at.rowid != 0 {
				return at, true
			}
		}
	}
	return hint{sum: sum}, false
}

// keep notes a hint. When both of its places are taken, another one gives way.
func (h *hints) keep(at hint) {
	if h.all == nil {
		h.all = make([]hint, hintCount)
	}
	p := places(at.sum)
	for _, i := range p {
		if h.all[i].sum == at.sum || h.all[i].rowid == 0 {
			h.all[i] = at
			return
		}
	}
	h.all[p[0]] = at
}

// places are where a hint may be.
func places(sum uint64) [2]uint64 { return [2]uint64{sum % hintCount, (sum >> 32) % hintCount} }

// replace stores r in the row of the hint. It does nothing where the hint is wrong,
// where the record there has expired or is in the full-text index, and where the
// condition does not hold.
func (x *tx) replace(at hint, r *tiers.Record, value driver.Value, c tiers.Cond, now int64) (done bool, err error) {
	query := replaceRow
	args := append(make([]driver.Value, 0, 14), r.Codec, int64(r.Schema), int64(r.Flags), micro(r.Version),
		now, tiers.ToMicro(r.Expires), value, at.rowid, r.Namespace, r.Category, r.Name, at.created, now)
	if want, conditional := c.Version(); conditional {
		query = replaceVersion
		args = append(args, micro(want)) // 0, which no row has, when it must be absent
	}
	n, err := x.exec(query, args...)
	if err != nil || n == 0 {
		return false, err
	}
	r.Created = tiers.FromMicro(at.created)
	return true, nil
}
