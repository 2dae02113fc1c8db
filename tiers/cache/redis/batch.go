package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// A batch of saves or deletes is one script, which holds up the server while it
// runs; these limits keep that below about half a second.
const (
	maxBatch      = 50_000
	maxBatchBytes = 256 << 20
)

// Atomic answers true: a batch of saves or deletes is one script.
func (t *Tier) Atomic() bool { return true }

// LoadMany loads all keys; what is absent has version 0.
func (t *Tier) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(ks))
	values, at := make([]string, 0, len(ks)), make([]int, 0, len(ks))
	var errs []error
	for i, k := range ks {
		out[i].Key = k
		if err := k.Check(); err != nil {
			errs = append(errs, t.fail("load", k, err))
			continue
		}
		values, at = append(values, t.names.value(k)), append(at, i)
	}
	found, err := t.fetch(ctx, values)
	if err != nil {
		return out, t.fail("load", tiers.Key{}, err)
	}
	for j, f := range found {
		i := at[j]
		if f.err == nil && f.value == nil {
			t.count.misses.Add(1)
			continue
		}
		r, err := tiers.Record{}, f.err
		if err == nil {
			r, err = decode(ks[i], f.value)
		}
		if err != nil {
			errs = append(errs, t.fail("load", ks[i], tiers.Hint(err, corruptHint)))
			continue
		}
		t.count.hits.Add(1)
		t.noteVersion(r.Version)
		out[i] = r
	}
	return out, errors.Join(errs...)
}

// SaveMany saves all records or none.
func (t *Tier) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	if len(cs) != 0 && len(cs) != len(rs) {
		return make([]tiers.Record, len(rs)), t.fail("save", tiers.Key{}, fmt.Errorf("%d conditions for %d records", len(cs), len(rs)))
	}
	out, err := t.saveAll(ctx, rs, cs)
	if err != nil {
		return make([]tiers.Record, len(rs)), t.failAll("save", err)
	}
	return out, nil
}

// DeleteMany deletes all keys or none.
func (t *Tier) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	if len(cs) != 0 && len(cs) != len(ks) {
		return make([]bool, len(ks)), t.fail("delete", tiers.Key{}, fmt.Errorf("%d conditions for %d keys", len(cs), len(ks)))
	}
	out, err := t.removeAll(ctx, ks, cs)
	if err != nil {
		return make([]bool, len(ks)), t.failAll("delete", err)
	}
	return out, nil
}

// failAll leaves the errors of items as they are, and completes others.
func (t *Tier) failAll(op string, err error) error {
	if _, joined := err.(interface{ Unwrap() []error }); joined {
		return err
	}
	return t.fail(op, tiers.Key{}, err)
}

// itemErrors joins the errors of single items; of one alone it is that.
func (t *Tier) itemErrors(op string, n int, key func(int) tiers.Key, fault func(int) error) error {
	var errs []error
	for i := range n {
		if err := fault(i); err != nil {
			errs = append(errs, tiers.Fail(op, t.name, key(i), err))
		}
	}
	if n == 1 && len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// layout numbers the spaces of a batch.
type layout struct {
	spaces []tiers.Space
	number map[tiers.Space]uint32 // made for the second one
}

func (l *layout) add(s tiers.Space) uint32 {
	if n := len(l.spaces); n > 0 && l.spaces[n-1] == s {
		return count32(n)
	}
	if n, ok := l.number[s]; ok {
		return n
	}
	if len(l.spaces) > 0 && l.number == nil {
		l.number = map[tiers.Space]uint32{l.spaces[0]: 1}
	}
	l.spaces = append(l.spaces, s)
	n := count32(len(l.spaces))
	if l.number != nil {
		l.number[s] = n
	}
	return n
}

// saveAll runs the script that saves. The records in the answer are those given,
// with version and times.
func (t *Tier) saveAll(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	if len(rs) == 0 {
		return nil, ctx.Err()
	}
	keyOf := func(i int) tiers.Key { return rs[i].Key }
	items, size := make([]saveItem, len(rs)), 0
	err := t.itemErrors("save", len(rs), keyOf, func(i int) (err error) {
		if err := t.checkRecord(&rs[i]); err != nil {
			return err
		}
		items[i], err = newSaveItem(&rs[i], tiers.CondAt(cs, i))
		size += len(items[i].value)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := checkBatch(len(rs), size); err != nil {
		return nil, err
	}
	c := t.newSave(items, size)
	if err := t.run(ctx, c); err != nil {
		return nil, err
	}
	reply, err := parseSaved(c.text, len(rs))
	if err != nil {
		return nil, err
	}
	err = t.itemErrors("save", len(rs), keyOf, func(i int) error { return statusError(reply.status(i)) })
	if err != nil {
		return nil, err
	}
	updated, version := tiers.FromMicro(reply.now), reply.first-1
	out := make([]tiers.Record, len(rs))
	for i := range rs {
		version++
		r := &out[i]
		*r = rs[i]
		r.Version, r.Updated, r.Created = version, updated, updated
		if at := reply.created(i); at != reply.now {
			r.Created = tiers.FromMicro(at)
		}
		r.Expires = tiers.FromMicro(expiry(reply.now, items[i].ttl))
		r.TTL = 0
	}
	t.noteVersion(version)
	return out, nil
}

// checkBatch refuses what would hold up the server for too long.
func checkBatch(n, size int) error {
	if n > maxBatch || n > 1 && size > maxBatchBytes {
		return tiers.Hint(fmt.Errorf("%w: the batch has %d records and %d bytes, %d and %d are allowed",
			tiers.ErrTooLarge, n, size, maxBatch, maxBatchBytes), "split the batch")
	}
	return nil
}

func (t *Tier) checkRecord(r *tiers.Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	if int64(len(r.Value)) > t.maxValue {
		return fmt.Errorf("%w: the value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(r.Value), t.maxValue)
	}
	return nil
}

// manyWrite makes the call of a script over many records. The values are nil
// for a script that takes none.
func (t *Tier) manyWrite(s *script, head []string, l *layout, n int, keyOf func(int) tiers.Key, metas []byte, values [][]byte) (*call, error) {
	m := len(l.spaces)
	keys := make([]string, 0, len(head)+m+n)
	keys = append(keys, head...)
	argv := make([]any, 0, 1+m+2*n)
	counts := binary.BigEndian.AppendUint32(make([]byte, 0, 9), count32(m))
	counts = binary.BigEndian.AppendUint32(counts, count32(n))
	indexed := byte(0)
	if t.indexed {
		indexed = 1
	}
	argv = append(argv, append(counts, indexed))
	for _, s := range l.spaces {
		keys = append(keys, t.names.bucket(s))
		argv = append(argv, member(s))
	}
	size, each := 0, len(metas)/n
	for i := range n {
		keys = append(keys, t.names.value(keyOf(i)))
		argv = append(argv, metas[each*i:each*(i+1)])
		if values != nil {
			argv = append(argv, values[i])
			size += len(values[i])
		}
	}
	if err := checkBatch(n, size); err != nil {
		return nil, err
	}
	return newWrite(s, keys, size, argv...), nil
}

func (t *Tier) removeAll(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	if len(ks) == 0 {
		return nil, ctx.Err()
	}
	keyOf := func(i int) tiers.Key { return ks[i] }
	if err := t.itemErrors("delete", len(ks), keyOf, func(i int) error { return ks[i].Check() }); err != nil {
		return nil, err
	}
	var l layout
	metas := make([]byte, 0, 13*len(ks))
	for i := range ks {
		metas = binary.BigEndian.AppendUint32(metas, l.add(ks[i].Space()))
		metas = appendCond(metas, tiers.CondAt(cs, i))
	}
	c, err := t.manyWrite(&t.scripts.remove, []string{t.names.spaces}, &l, len(ks), keyOf, metas, nil)
	if err != nil {
		return nil, err
	}
	if err := t.run(ctx, c); err != nil {
		return nil, err
	}
	reply := c.text[9:]
	if len(reply) != len(ks) {
		return nil, fmt.Errorf("%w: redis answered %d bytes for %d keys", tiers.ErrCorrupt, len(reply), len(ks))
	}
	if c.text[0] == 'f' {
		return nil, t.itemErrors("delete", len(ks), keyOf, func(i int) error { return statusError(reply[i]) })
	}
	out := make([]bool, len(ks))
	for i := range out {
		out[i] = reply[i] == '1'
	}
	return out, nil
}

// chunk limits one script of Apply, which need not be atomic.
const (
	applyChunk      = 512
	applyChunkBytes = 4 << 20
)

// Apply stores records as they are.
func (t *Tier) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	if len(over) != 0 && len(over) != len(rs) {
		return t.fail("apply", tiers.Key{}, fmt.Errorf("%d conditions for %d records", len(over), len(rs)))
	}
	values := make([][]byte, len(rs))
	err := t.itemErrors("apply", len(rs), func(i int) tiers.Key { return rs[i].Key }, func(i int) (err error) {
		if err := t.checkRecord(&rs[i]); err != nil {
			return err
		}
		if rs[i].Version > maxVersion {
			return fmt.Errorf("%w: version %d is above 2^53", tiers.ErrUnsupported, rs[i].Version)
		}
		if !rs[i].Deleted {
			values[i], err = encode(&rs[i], t.magic())
		}
		return err
	})
	if err != nil {
		return t.failAll("apply", err)
	}
	for begin := 0; begin < len(rs); {
		end, size := begin, 0
		for end < len(rs) && end-begin < applyChunk && (end == begin || size+len(values[end]) <= applyChunkBytes) {
			size += len(values[end])
			end++
		}
		var conds []tiers.Cond
		if len(over) > 0 {
			conds = over[begin:end]
		}
		if err := t.applyChunk(ctx, rs[begin:end], conds, values[begin:end]); err != nil {
			return t.fail("apply", rs[begin].Key, err)
		}
		begin = end
	}
	return nil
}

func (t *Tier) applyChunk(ctx context.Context, rs []tiers.Record, over []tiers.Cond, values [][]byte) error {
	var l layout
	metas := make([]byte, 0, 30*len(rs))
	for i := range rs {
		metas = binary.BigEndian.AppendUint32(metas, l.add(rs[i].Space()))
		metas = appendCond(metas, tiers.CondAt(over, i))
		deleted := byte(0)
		if rs[i].Deleted {
			deleted = 1
		}
		metas = append(metas, deleted)
		metas = binary.BigEndian.AppendUint64(metas, uint64(rs[i].Version))
		metas = binary.BigEndian.AppendUint64(metas, bits(tiers.ToMicro(rs[i].Expires)))
	}
	keyOf := func(i int) tiers.Key { return rs[i].Key }
	c, err := t.manyWrite(&t.scripts.apply, []string{t.names.mark, t.names.spaces}, &l, len(rs), keyOf, metas, values)
	if err != nil {
		return err
	}
	if err := t.run(ctx, c); err != nil {
		return err
	}
	for i := range rs {
		t.noteVersion(rs[i].Version)
	}
	return nil
}

func appendCond(b []byte, c tiers.Cond) []byte {
	want, set := c.Version()
	kind := byte(0)
	if set {
		kind = 1
	}
	return binary.BigEndian.AppendUint64(append(b, kind), uint64(min(want, maxVersion+1)))
}

// micros rounds away from zero, so that no TTL becomes none.
func micros(ttl time.Duration) int64 {
	us := ttl.Microseconds()
	switch {
	case ttl > 0 && ttl%time.Microsecond != 0:
		return us + 1
	case ttl < 0 && ttl%time.Microsecond != 0:
		return us - 1
	}
	return us
}

func packTTL(ttl time.Duration) []byte {
	return binary.BigEndian.AppendUint64(nil, bits(micros(ttl)))
}
