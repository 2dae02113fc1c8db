package database

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// columns of an upsert, in the order of saveArgs.
const insertRecord = `INSERT INTO records
	(namespace, category, key, codec, schema, flags, version, created, updated, expires, value)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (namespace, category, key) DO UPDATE SET
	codec = excluded.codec, schema = excluded.schema, flags = excluded.flags, version = excluded.version,
	updated = excluded.updated, expires = excluded.expires, value = excluded.value, created = `

// A record that is in the full-text index is not replaced: see unindex.
const (
	// A record that has expired is as good as absent: its Created is not kept.
	saveAny = insertRecord + `CASE WHEN records.expires = 0 OR records.expires > excluded.updated
		THEN records.created ELSE excluded.created END WHERE records.flags < 256 RETURNING created, rowid`
	saveAbsent = insertRecord + `excluded.created
		WHERE records.expires <> 0 AND records.expires <= excluded.updated AND records.flags < 256 RETURNING created, rowid`
	saveOver = `UPDATE records SET codec = ?, schema = ?, flags = ?, version = ?, updated = ?, expires = ?, value = ?
		WHERE namespace = ? AND category = ? AND key = ? AND version = ? AND (expires = 0 OR expires > ?)
		AND flags < 256 RETURNING created, rowid`
	liveVersion = `SELECT version FROM records
		WHERE namespace = ? AND category = ? AND key = ? AND (expires = 0 OR expires > ?)`
	deleteRow = `DELETE FROM records WHERE namespace = ? AND category = ? AND key = ? RETURNING expires, flags >> 8`
	touchRow  = `UPDATE records SET expires = ?
		WHERE namespace = ? AND category = ? AND key = ? AND (expires = 0 OR expires > ?)`
)

// Save implements tiers.Tier.
func (t *Tier) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	p, err := t.prepare(&r)
	if err != nil {
		return tiers.Record{}, t.fail("save", r.Key, err)
	}
	var saved tiers.Record
	err = t.writer.do(ctx, &job{bytes: p.bytes(), run: func(tx *tx) (err error) {
		saved, err = tx.save(p, c)
		return err
	}})
	if err != nil {
		return tiers.Record{}, t.failed("save", r.Key, err)
	}
	saved.Value = r.Value
	return saved, nil
}

// Delete implements tiers.Tier.
func (t *Tier) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	if err := k.Check(); err != nil {
		return false, t.fail("delete", k, err)
	}
	var was bool
	err = t.writer.do(ctx, &job{bytes: len(k.Name), run: func(tx *tx) (err error) {
		was, err = tx.remove(k, c)
		return err
	}})
	if err != nil {
		return false, t.failed("delete", k, err)
	}
	return was, nil
}

// Touch implements tiers.Toucher.
func (t *Tier) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (existed bool, err error) {
	if err := k.Check(); err != nil {
		return false, t.fail("touch", k, err)
	}
	var was bool
	err = t.writer.do(ctx, &job{bytes: len(k.Name), run: func(tx *tx) (err error) {
		if ttl < 0 {
			was, err = tx.remove(k, tiers.Cond{})
			return err
		}
		now := tx.clock.Now()
		n, err := tx.exec(touchRow, tiers.ToMicro(tiers.Deadline(now, ttl)), k.Namespace, k.Category, k.Name, now.UnixMicro())
		was = n > 0
		return err
	}})
	if err != nil {
		return false, t.failed("touch", k, err)
	}
	return was, nil
}

// failed is fail, and counts what is not an answer.
func (t *Tier) failed(op string, k tiers.Key, err error) error {
	if !engine.IsAnswer(err) {
		t.failures.Add(1)
	}
	return t.fail(op, k, err)
}

// packed is a record made ready for the writer: checked, and without any memory
// of the caller's, who may go away before the writer is done.
type packed struct {
	tiers.Record // without its value and index text
	value        driver.Value
	found        *indexed // nil: it has no place in the full-text index
}

func (p *packed) bytes() int { return len(p.Name) + valueLen(p.value) + p.found.bytes() }

// flags are those of the row, once it is settled where its entry goes.
func (p *packed) flags() int64 {
	if p.found != nil {
		return int64(p.Flags) | p.found.place<<flagBits
	}
	return int64(p.Flags)
}

func valueLen(v driver.Value) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 0
}

func (t *Tier) prepare(r *tiers.Record) (*packed, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if int64(len(r.Value)) > t.maxValue {
		return nil, fmt.Errorf("%w: the value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(r.Value), t.maxValue)
	}
	found, err := packIndex(r)
	if err != nil {
		return nil, err
	}
	p := &packed{Record: *r, value: pack(r), found: found}
	p.Value, p.Index = nil, nil
	return p, nil
}

// save stores a record and answers it without its value.
func (x *tx) save(p *packed, c tiers.Cond) (tiers.Record, error) {
	instant := x.clock.Now()
	now := instant.UnixMicro()
	r := p.Record
	r.Deleted = false
	r.Updated = tiers.Micro(instant)
	r.Created = r.Updated
	r.Expires = tiers.Deadline(instant, p.TTL)
	if p.TTL < 0 || !r.Live(tiers.Micro(instant)) {
		if _, err := x.remove(p.Key, c); err != nil {
			return tiers.Record{}, err
		}
		r.Version = x.next(now)
		return r, nil
	}
	r.Version = x.next(now)
	at, known := x.hints.find(r.Key)
	if known && p.found == nil {
		done, err := x.replace(at, &r, p.value, c, now)
		if done || err != nil {
			return r, err
		}
	}
	if err := x.settle(p.found); err != nil {
		return tiers.Record{}, err
	}
	want, conditional := c.Version()
	query := saveAny
	if conditional {
		query = saveAbsent
	}
	args := []driver.Value{
		r.Namespace, r.Category, r.Name, r.Codec, int64(r.Schema), p.flags(),
		micro(r.Version), now, now, tiers.ToMicro(r.Expires), p.value,
	}
	if conditional && want != 0 {
		query = saveOver
		args = []driver.Value{
			r.Codec, int64(r.Schema), p.flags(), micro(r.Version), now, tiers.ToMicro(r.Expires), p.value,
			r.Namespace, r.Category, r.Name, micro(want), now,
		}
	}
	row, err := x.first(query, args...)
	if err != nil {
		return tiers.Record{}, err
	}
	if row == nil {
		again, err := x.unindex(r.Key, c, now)
		if err == nil && again && p.found == nil {
			err = x.raiseGaps()
		}
		if err == nil && again {
			row, err = x.first(query, args...)
		}
		if err != nil {
			return tiers.Record{}, err
		}
	}
	if row == nil {
		return tiers.Record{}, unmet(c)
	}
	at.created, _ = row[0].(int64)
	at.rowid, _ = row[1].(int64)
	x.hints.keep(at)
	r.Created = tiers.FromMicro(at.created)
	x.index(p.found)
	return r, nil
}

// unmet is why a condition does not hold that is known not to.
func unmet(c tiers.Cond) error {
	if want, _ := c.Version(); want == 0 {
		return tiers.ErrExists
	}
	return tiers.ErrConflict
}

// remove deletes a key and tells whether a live record was there.
func (x *tx) remove(k tiers.Key, c tiers.Cond) (existed bool, err error) {
	now := x.now()
	if _, conditional := c.Version(); conditional {
		v, err := x.number(liveVersion, k.Namespace, k.Category, k.Name, now)
		if err != nil {
			return false, err
		}
		if err := c.Holds(tiers.Version(v)); err != nil { //nolint:gosec // written from a version
			return false, err
		}
	}
	row, err := x.first(deleteRow, k.Namespace, k.Category, k.Name)
	if err != nil || row == nil {
		return false, err
	}
	expires, _ := row[0].(int64)
	place, _ := row[1].(int64)
	delete(x.pending, place)
	return expires == 0 || expires > now, nil
}
