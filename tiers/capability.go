package tiers

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Applier stores records as they are, with version and times, unless a newer
// version is there: what the journal, a near layer, a migration and a restore
// need. A record with Deleted set removes the key by the same rule. It is
// idempotent, and later saves get higher versions than any that was applied.
// Where over is not nil it has one entry a record; a condition in it replaces
// the rule: the record is stored only over exactly that version. A record that
// was passed over is no error. An already expired record is a delete.
type Applier interface {
	Apply(ctx context.Context, rs []Record, over []Cond) error
}

// Batcher does many keys at once. Results align with the arguments by index;
// what is absent has version 0. Conditions are nil or of equal length. The
// errors of single items are joined, each an *Error with its key; those items
// have version 0, or false, in the result. Atomic tells whether saves and
// deletes do nothing at all when any item fails.
type Batcher interface {
	Atomic() bool
	LoadMany(ctx context.Context, ks []Key) ([]Record, error)
	SaveMany(ctx context.Context, rs []Record, cs []Cond) ([]Record, error)
	DeleteMany(ctx context.Context, ks []Key, cs []Cond) ([]bool, error)
}

// Lender loads and saves without copying values. What it keeps a value in is never
// changed, by nobody: who wants to change a value that was lent copies it first.
type Lender interface {
	// Lend is Load, but for the value, which is the stored one. It stays as it is,
	// whatever becomes of the key.
	Lend(ctx context.Context, k Key) (Record, error)
	// Take is Save, but for the value, which it takes over.
	Take(ctx context.Context, r Record, c Cond) (Record, error)
}

// Exister tells whether a live record is there, without loading it.
type Exister interface {
	Exists(ctx context.Context, k Key) (bool, error)
}

// Toucher changes the expiry of a live record, and neither version nor Updated.
// A TTL of 0 is never, a negative one removes the record.
type Toucher interface {
	Touch(ctx context.Context, k Key, ttl time.Duration) (existed bool, err error)
}

// Sweeper removes expired records, at most limit of them in one call; fewer
// than limit means that there was no more.
type Sweeper interface {
	Sweep(ctx context.Context, limit int) (removed int, err error)
}

// Pinger asks the store for a sign of life.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Stats are counters since the tier was opened; Entries and Bytes are what is
// stored now. Bytes counts keys and values, encoded.
type Stats struct {
	Entries int64         `json:"entries"`
	Bytes   int64         `json:"bytes"`
	Hits    int64         `json:"hits"`
	Misses  int64         `json:"misses"`
	Errors  int64         `json:"errors"`
	Expired int64         `json:"expired"`
	Evicted int64         `json:"evicted"` // moved to the spill file, for memory
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
}

// Statser answers a tier's own counters. P50 and P99 may stay 0.
type Statser interface {
	Stats(ctx context.Context) (Stats, error)
}

// Counter counts the live records of a space, and the bytes of their keys and
// values.
type Counter interface {
	Count(ctx context.Context, s Space) (entries, bytes int64, err error)
}

// Scope says who sees an acknowledged save.
type Scope uint8

// The scopes.
const (
	ScopeProcess Scope = iota // this process
	ScopeHost                 // the processes of this host
	ScopeStore                // every process that shares the server
)

// Info describes a tier.
type Info struct {
	Driver   string
	Place    string // where the data is; never with a secret
	Scope    Scope
	Durable  bool  // acknowledged saves survive the process
	MaxValue int64 // in bytes; 0: no limit of its own
}

// Describer answers what a tier is.
type Describer interface {
	Describe() Info
}

// Finding is one thing that a check of a running tier has to say.
type Finding struct {
	OK      bool   `json:"ok"`
	Subject string `json:"subject"` // "disk room", "server version", ...
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do; empty when OK
}

// Diagnoser checks what only the tier can: its paths and their modes, room on
// the disk, its server's version and settings, its schema, its clock.
type Diagnoser interface {
	Diagnose(ctx context.Context) []Finding
}

// As finds a capability. A wrapper answers for itself through a method
// As(target any) bool, where target is a *T to be set, and its answer is final;
// a tier without that method has what it implements.
func As[T any](t Tier) (capability T, ok bool) {
	if w, is := t.(interface{ As(target any) bool }); is {
		ok = w.As(&capability)
		return capability, ok
	}
	capability, ok = t.(T)
	return capability, ok
}

// LoadMany loads all keys, at once where the tier can.
func LoadMany(ctx context.Context, t Tier, ks []Key) ([]Record, error) {
	if b, ok := As[Batcher](t); ok {
		return b.LoadMany(ctx, ks)
	}
	out := make([]Record, len(ks))
	var errs []error
	for i, k := range ks {
		r, err := t.Load(ctx, k)
		switch {
		case err == nil:
			out[i] = r
		case errors.Is(err, ErrNotFound):
			out[i] = Record{Key: k}
		default:
			errs = append(errs, Fail("load", "", k, err))
		}
	}
	return out, errors.Join(errs...)
}

// SaveMany saves all records, at once where the tier can.
func SaveMany(ctx context.Context, t Tier, rs []Record, cs []Cond) ([]Record, error) {
	if b, ok := As[Batcher](t); ok {
		return b.SaveMany(ctx, rs, cs)
	}
	out := make([]Record, len(rs))
	var errs []error
	for i, r := range rs {
		saved, err := t.Save(ctx, r, CondAt(cs, i))
		if err != nil {
			errs = append(errs, Fail("save", "", r.Key, err))
			continue
		}
		out[i] = saved
	}
	return out, errors.Join(errs...)
}

// DeleteMany deletes all keys, at once where the tier can.
func DeleteMany(ctx context.Context, t Tier, ks []Key, cs []Cond) ([]bool, error) {
	if b, ok := As[Batcher](t); ok {
		return b.DeleteMany(ctx, ks, cs)
	}
	out := make([]bool, len(ks))
	var errs []error
	for i, k := range ks {
		existed, err := t.Delete(ctx, k, CondAt(cs, i))
		if err != nil {
			errs = append(errs, Fail("delete", "", k, err))
		}
		out[i] = existed
	}
	return out, errors.Join(errs...)
}

// CondAt answers the condition of an item of a batch; without any there is none.
func CondAt(cs []Cond, i int) Cond {
	if i < len(cs) {
		return cs[i]
	}
	return Cond{}
}

// Exists tells whether a live record is there.
func Exists(ctx context.Context, t Tier, k Key) (bool, error) {
	if e, ok := As[Exister](t); ok {
		return e.Exists(ctx, k)
	}
	_, err := t.Load(ctx, k)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Touch changes a record's expiry, or answers ErrUnsupported.
func Touch(ctx context.Context, t Tier, k Key, ttl time.Duration) (existed bool, err error) {
	if c, ok := As[Toucher](t); ok {
		return c.Touch(ctx, k, ttl)
	}
	return false, Fail("touch", "", k, ErrUnsupported)
}

// Count counts the live records of a space.
func Count(ctx context.Context, t Tier, s Space) (entries, bytes int64, err error) {
	if c, ok := As[Counter](t); ok {
		return c.Count(ctx, s)
	}
	for r, err := range t.List(ctx, Query{Namespace: s.Namespace, Category: s.Category}) {
		if err != nil && r.Name == "" {
			return entries, bytes, err
		}
		entries++
		bytes += int64(len(r.Name) + len(r.Value))
	}
	return entries, bytes, nil
}

// Describe answers what the tier is; the zero Info when it does not say.
func Describe(t Tier) Info {
	if d, ok := As[Describer](t); ok {
		return d.Describe()
	}
	return Info{}
}

// Failed is a listing that ends at once with err.
func Failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		yield(zero, err)
	}
}
