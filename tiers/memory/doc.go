// Package memory is the memory tier: records in RAM, as fast as a map and as
// exact as one, within a budget of bytes.
//
//	t, err := memory.New(memory.Options{Budget: 64 << 20})
//	...
//	defer t.Close(ctx)
//	k := tiers.Key{Category: "session.context", Name: "s-1/task"}
//	_, err = t.Save(ctx, tiers.Record{Key: k, Value: []byte(`{"step":1}`), TTL: time.Hour}, tiers.Cond{})
//	r, err := t.Load(ctx, k)
//
// An exact map, cut into shards, is the truth. Ristretto, a cache with a TinyLFU
// admission policy, is asked one thing only: what should leave when the budget
// is full. Nothing that was acknowledged depends on it, so neither the sets that
// it drops or rejects nor the order in which it applies them can lose a record
// or show an old one.
//
// What has to leave goes to a private spill file first. The file is made with
// the first record that needs it, has mode 0600, loses its name at once and is
// gone with the process; its index is in memory. A record in it is loaded, listed
// and counted like any other. When the file's own limit or the disk is full, Save
// answers tiers.ErrFull and everything stored before stays. With the overflow
// "none" there is no file, and Save answers tiers.ErrFull when the budget is used
// up.
//
// The budget counts the bytes of all keys and of the values in memory. A record
// costs about 300 bytes of bookkeeping beside it, also when its value is in the
// spill file.
//
// What the tier promises beyond [tiers.Tier]: batches are all or nothing, for
// every reader; listings are in order at any size; versions are a hybrid clock
// whose mark is kept as long as the tier is open. Its scope is the process, and
// nothing survives Close.
//
// Through tiers.As it also offers [tiers.System], the store of a manager that
// keeps everything in memory.
package memory
