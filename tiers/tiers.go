// Package tiers is the contract between sagestore and its stores.
//
// A [Tier] is one kind of storage: memory, cache, database or file. The
// required interface is small; everything else is an optional capability (see
// capability.go) that callers find with [As]. The package functions [LoadMany],
// [SaveMany], [Exists] and so on take the fast path where a tier has one and
// fall back to the required methods where it has not.
//
// What every tier promises:
//
//   - Save returns nil only when the value can be loaded by every caller in the
//     tier's [Scope] from then on, until it expires or is deleted.
//   - An expired record is never returned by anything, swept or not. A save that
//     demands absence treats it as absent, and touching does not revive it.
//   - Values are copied: changing what was saved or loaded never changes what is
//     stored.
//   - Versions of a key only grow, also across delete and re-create, and also
//     when the clock stands still or is set back.
//   - Listings are in bytewise order of the key.
//   - A context that ended before the work began changes nothing. Once the work
//     is past the point of no return, leaving early answers [ErrCommitUnknown]
//     wrapping the context's error, never a plain failure.
//   - Everything is safe for concurrent use. After Close every method answers
//     [ErrClosed].
//
// Package tiertest holds the suite that checks these promises.
package tiers

import (
	"context"
	"iter"
	"time"
)

// Version counts the changes of a key. It grows with each save, is never
// reused, also not after a delete, and 0 means absent. Gaps are normal. It is a
// hybrid logical clock, the larger of the highest version that the tier has
// issued plus one and the tier's time in microseconds since 1970, so that it
// needs no tombstones and fits a JSON number.
type Version uint64

// Flags say what was done to the value of a record before a tier saw it.
type Flags uint8

// The flags of a record. A tier stores them and does nothing else with them,
// but for the file tier, which writes plain JSON readably.
const (
	Enveloped  Flags = 1 << iota // the value is an envelope, see docs/FORMAT.md
	Compressed                   // the envelope's payload is compressed
	Encrypted                    // the envelope's payload is encrypted
)

// Record is one stored entry. Times are UTC, in microseconds.
type Record struct {
	Key
	Value  []byte // owned by whoever got it; a tier copies what it is given
	Codec  string // name of the codec that made Value: json, msgpack, gob, raw or the app's own
	Schema uint32 // number of the app's Go type, from 1
	Flags  Flags

	Version Version // assigned by Save; as it is in Apply
	Created time.Time
	Updated time.Time

	// TTL goes in: how long from now, by the tier's own clock. 0 is never; a
	// negative one makes the key absent at once. Expires comes out: the instant
	// after which the record is gone, the zero time for never. Save ignores
	// Expires; Apply ignores TTL and takes Expires.
	TTL     time.Duration
	Expires time.Time

	Deleted bool // only in Apply and in the journal: the key is to be deleted

	// Index goes in only, and only a [Searcher] looks at it: what the record is
	// to be found by. The journal does not keep it.
	Index *IndexText
}

// Cond is a condition on what is stored. The zero value is no condition.
type Cond struct {
	version Version
	set     bool
}

// If is the condition that the stored version is v; If(0) is that there is none.
func If(v Version) Cond { return Cond{version: v, set: true} }

// Version answers the version that the condition demands, and whether there is
// a condition at all.
func (c Cond) Version() (v Version, ok bool) { return c.version, c.set }

// Holds tells whether the condition is met by a key whose live version is v, 0
// for absent, and else why not: [ErrExists] when absence was demanded and
// [ErrConflict] in every other case.
func (c Cond) Holds(v Version) error {
	switch {
	case !c.set || c.version == v:
		return nil
	case c.version == 0:
		return ErrExists
	}
	return ErrConflict
}

// Query selects records of one category of one namespace.
type Query struct {
	Namespace string
	Category  string
	Prefix    string // of the key's string; "%", "_" and "*" are themselves
	After     string // exclusive: where to go on; the list starts beyond this key in its direction
	Limit     int    // 0: no limit
	Reverse   bool   // from the last key to the first
	KeysOnly  bool   // values may be left out
}

// Space is a namespace and a category with at least one stored record.
type Space struct{ Namespace, Category string }

// Tier is what every store does. Contexts are honoured, deadlines kept.
type Tier interface {
	// Load answers the record, or ErrNotFound.
	Load(ctx context.Context, k Key) (Record, error)

	// Save stores r if the condition holds and answers it with the version and
	// the times as stored; Value is the caller's own slice. Created stays that
	// of the live record it replaces. A failed condition is ErrExists or
	// ErrConflict.
	Save(ctx context.Context, r Record, c Cond) (Record, error)

	// Delete removes the key if the condition holds and tells whether a live
	// record was there. Deleting what is absent is no error, unless the
	// condition demanded a version.
	Delete(ctx context.Context, k Key, c Cond) (existed bool, err error)

	// List yields what the query selects, in bytewise order of the key. It
	// reads in pages and holds no lock while it yields. A record that can't be
	// read is yielded with its key and an error, and the list goes on; an error
	// whose record has no key name ends it.
	List(ctx context.Context, q Query) iter.Seq2[Record, error]

	// Spaces yields the spaces that hold records, in order; one with expired
	// records only may be among them.
	Spaces(ctx context.Context) iter.Seq2[Space, error]

	// Close flushes, refuses new calls and waits for every goroutine of the
	// tier. A second Close returns nil.
	Close(ctx context.Context) error
}
