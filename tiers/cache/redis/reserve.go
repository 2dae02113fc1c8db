package redis

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// reserveChunk limits one script of Reserve, which need not be atomic.
const reserveChunk = 10_000

// Reserve issues versions for changes that are applied later, see
// tiers.Reserver. All keys of a call go in one round trip. Issuing one twice is
// harmless, so a call whose answer is lost is one that could not be made.
func (t *Tier) Reserve(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	keyOf := func(i int) tiers.Key { return ks[i] }
	if err := t.itemErrors("reserve", len(ks), keyOf, func(i int) error { return ks[i].Check() }); err != nil {
		return nil, t.failAll("reserve", err)
	}
	if above > maxVersion {
		return nil, t.fail("reserve", tiers.Key{}, fmt.Errorf("%w: nothing is above version %d", tiers.ErrUnsupported, above))
	}
	var calls []*call
	for begin := 0; begin < len(ks); begin += reserveChunk {
		calls = append(calls, t.newReserve(ks[begin:min(begin+reserveChunk, len(ks))], above))
	}
	if len(calls) == 0 {
		return nil, t.fail("reserve", tiers.Key{}, ctx.Err())
	}
	if err := t.run(ctx, calls...); err != nil {
		return nil, t.fail("reserve", ks[0], err)
	}
	out := make([]tiers.Reservation, len(ks))
	for i, c := range calls {
		begin := i * reserveChunk
		if err := t.parseReserved(c.text, out[begin:min(begin+reserveChunk, len(out))]); err != nil {
			return nil, t.fail("reserve", ks[begin], err)
		}
	}
	err := t.itemErrors("reserve", len(ks), keyOf, func(i int) error {
		if out[i].Version == unreadable {
			return statusError('b')
		}
		return nil
	})
	if err != nil {
		return nil, t.failAll("reserve", err)
	}
	return out, nil
}

// newReserve makes the call. It is a read: sent again when its connection turns
// out to be lost, and not in doubt when nobody waits for its answer.
func (t *Tier) newReserve(ks []tiers.Key, above tiers.Version) *call {
	keys := make([]string, 0, 1+len(ks))
	keys = append(keys, t.names.mark)
	for _, k := range ks {
		keys = append(keys, t.names.value(k))
	}
	c := newWrite(&t.scripts.reserve, keys, 0, binary.BigEndian.AppendUint64(nil, uint64(above)))
	c.write = false
	return c
}

// unreadable is the version that luaReserve answers for a damaged record.
const unreadable = tiers.Version(maxVersion + 1)

func (t *Tier) parseReserved(text []byte, out []tiers.Reservation) error {
	if len(text) != 9+8+16*len(out) {
		return fmt.Errorf("%w: redis answered %d bytes for %d keys", tiers.ErrCorrupt, len(text), len(out))
	}
	be := binary.BigEndian
	next := tiers.Version(be.Uint64(text[9:]))
	for i := range out {
		at := text[17+16*i:]
		out[i] = tiers.Reservation{Version: tiers.Version(be.Uint64(at)), Created: tiers.FromMicro(int64At(at[8:])), Next: next}
		next++
	}
	t.noteVersion(next - 1)
	return nil
}

// luaReserve: KEYS are the mark and n records; ARGV[2] is a version that all have
// to be above. The reply has the first of n versions one after another, and for
// each record its version and when it was created: zeros when it is absent, and a
// version above the highest when it can't be read.
const luaReserve = `
local n = #KEYS - 1
local high, found = math.max(get_mark(KEYS[1]), (unpack_('>I8', ARGV[2]))), {}
for i = 1, n do
  local h = head(KEYS[i + 1])
  if h then
    found[i] = sub(h, 3, 18)
    high = math.max(high, (unpack_('>I8', h, 3)))
  elseif h == nil then found[i] = pack('>I8I8', 0, 0)
  else found[i] = pack('>I8I8', highest + 1, 0) end
end
local first = math.max(now, high + 1)
call('SET', KEYS[1], pack('>I8', first + n - 1))
return 'k' .. stamp .. pack('>I8', first) .. table.concat(found)
`
