// Package redis keeps records in a Redis server, for the cache tier.
//
//	t, err := redis.Open(ctx, redis.Config{Options: redis.Options{URL: "redis://127.0.0.1:6379"}})
//	r, err := t.Save(ctx, tiers.Record{Key: tiers.Key{Category: "session.history", Name: "s-1"},
//		Value: []byte(`{"n":1}`), Codec: "json", Schema: 1, TTL: 24 * time.Hour}, tiers.Cond{})
//
// Every process that uses the same server, prefix and epoch shares the records.
// It needs Redis 6.2 or later, or a server that speaks its language.
//
// # What is promised
//
// A save is one script on the server: version, condition, value with its
// expiry, and index entry come together or not at all, so that no key is ever
// without the expiry it was to have. A batch of saves or deletes is one script
// too, all or nothing. Versions follow the server's clock and never repeat.
// Expiry follows the server's clock; a record is gone up to a millisecond before
// its Expires, never after it.
//
// Every script that changes something carries the instant, in the server's
// time, at which its caller stops waiting, and changes nothing when it runs
// later. So a command that was sent to a server that hung can't come to life
// after its caller was told [tiers.ErrCommitUnknown]; this needs the estimate
// of the server's clock, which every reply renews, and no state. Only a caller
// that was cancelled before its deadline can be followed by its command, up to
// that deadline.
//
// No command is sent twice, except one of which it is certain that it changed
// nothing. [tiers.ErrUnavailable] says that nothing was changed; a save or
// delete without an answer is [tiers.ErrCommitUnknown].
//
// When the server does not answer, a circuit breaker opens and every call
// answers [tiers.ErrUnavailable] at once, until a probe in the background has
// reached the server again. [Open] succeeds while the server is away. See
// [tiers.Outage].
//
// Calls of many callers travel together: what arrives while others are on their
// way is sent as one pipeline. A lone caller does not wait for company.
//
// # Keys
//
//	PREFIX:{EPOCH.NAMESPACE.CATEGORY.0}:KEY   a record
//	PREFIX:{EPOCH.NAMESPACE.CATEGORY.0}       sorted set: the keys of the space, all with score 0
//	PREFIX:{EPOCH}:mark                       the highest version issued, 8 bytes
//	PREFIX:{EPOCH}:spaces                     set of NAMESPACE.CATEGORY
//	PREFIX:{EPOCH}:changes                    a channel: what processes tell each other, see [Tier.Send]
//
// The part in braces makes a space one slot of a cluster; 0 is the number of
// its bucket, of which there is one now. Redis removes expired records by
// itself; their names stay in the sorted set, hidden, until Sweep.
//
// A save over a record whose beginning says that its key is in the sorted set
// does not enter it again, unless the server may evict. So whoever moves records
// by hand has to move the sorted set with them.
//
// # The stored value
//
// Numbers are big-endian. Times are microseconds since 1970, signed; 0 is none.
//
//	offset  bytes
//	     0      2  "s1"; "s2" when the save did not enter the key into the index
//	     2      8  version
//	    10      8  created
//	    18      8  updated
//	    26      8  expires
//	    34     32  bytes 2 to 33 again
//	    66      4  CRC-32C of NAMESPACE 0 CATEGORY 0 KEY 0 and of all bytes from 70 on
//	    70      1  flags
//	    71      4  schema
//	    75      1  length of the codec's name
//	    76         codec's name, value
//
// The checksum is made by whoever saves. Version and times come from the script,
// in which writing and comparing them twice is much cheaper than a checksum. A
// flipped bit anywhere is [tiers.ErrCorrupt].
package redis
