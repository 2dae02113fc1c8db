// Package learning keeps what an agent app has learned of its users: patterns of
// what they do, optimizations that worked, and feedback.
//
//	l := learning.New(m)
//	err := l.Patterns.Add(ctx, learning.Record{User: "user-42", Kind: "style", Text: "prefers short answers", Score: 0.9})
//	best, err := l.Patterns.Top(ctx, learning.Query{User: "user-42", Kind: "style", Limit: 5})
//	text, err := l.Digest(ctx, "user-42", 200) // for a prompt
//
// The three books are the categories learning.patterns, learning.optimizations and
// learning.feedback, where records stay until they are deleted. What is seen again
// is not stored again: its record tells how often it was seen.
package learning

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Record is something that was learned.
type Record struct {
	// ID names it among the user's records of a book. An empty one is made from
	// Kind and Text, so that the same text is the same record.
	ID    string  `json:"id"`
	User  string  `json:"user"` // "" is for everybody
	Kind  string  `json:"kind"` // such as "style"
	Text  string  `json:"text"`
	Score float64 `json:"score"` // how good, or how sure, it is; the app's own scale

	Seen     int64             `json:"seen"`  // how often; 0 is once
	First    time.Time         `json:"first"` // when it was seen first
	At       time.Time         `json:"at"`    // when it was seen last; now when it is zero
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Store has the three books of a manager, or of one namespace of it. It is safe for
// concurrent use.
type Store struct {
	Patterns      *Book
	Optimizations *Book
	Feedback      *Book
	options
}

type options struct {
	clock tiers.Clock
	count func(text string) int
}

// Option is [WithCounter].
type Option func(*options)

// WithCounter counts the tokens of a text for [Store.Digest]. Without it a token is
// taken to be three bytes, which is more tokens than most models need.
func WithCounter(count func(text string) int) Option {
	return func(o *options) { o.count = count }
}

// New answers the books of a manager or of a transaction.
func New(s manager.Scope, opts ...Option) *Store {
	o := options{clock: manager.ClockOf(s), count: func(text string) int { return (len(text) + 2) / 3 }}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	book := func(category string) *Book {
		return &Book{scope: s, clock: o.clock, records: manager.For[Record](s, category)}
	}
	return &Store{book("learning.patterns"), book("learning.optimizations"), book("learning.feedback"), o}
}

// In answers the books as the transaction sees them.
func (l *Store) In(tx *manager.Tx) *Store {
	return &Store{l.Patterns.In(tx), l.Optimizations.In(tx), l.Feedback.In(tx), l.options}
}

// Check answers what is wrong with the categories of the books.
func (l *Store) Check() error {
	return manager.Check(l.Patterns.records, l.Optimizations.records, l.Feedback.records)
}

// Book is one category of records.
type Book struct {
	scope   manager.Scope
	clock   tiers.Clock
	records *manager.Collection[Record]
}

// In answers the book as the transaction sees it.
func (b *Book) In(tx *manager.Tx) *Book {
	return &Book{scope: tx, clock: b.clock, records: b.records.In(tx)}
}

// conflicts is how often a transaction is run again.
const conflicts = 100

// Add adds records, all or none. A record that the user has already is seen once
// more, or as often as Seen says: Score, Text, Kind and Metadata are those of
// the newest, where it has them.
func (b *Book) Add(ctx context.Context, rs ...Record) error {
	now := tiers.Micro(b.clock.Now())
	fresh := make(map[string]Record, len(rs))
	for _, r := range rs {
		if r.Seen < 0 || math.IsNaN(r.Score) || math.IsInf(r.Score, 0) {
			return b.fail("add", r.ID, fmt.Errorf("%w: seen %d times, score %g", tiers.ErrType, r.Seen, r.Score))
		}
		if r.ID == "" {
			r.ID = idOf(r.Kind, r.Text)
		}
		if r.At.IsZero() {
			r.At = now
		}
		r.Seen, r.First = max(1, r.Seen), r.At
		key := keyOf(r.User, r.ID)
		if err := tiers.CheckName(key); err != nil {
			return b.fail("add", r.ID, err)
		}
		if old, twice := fresh[key]; twice {
			r = old.again(r)
		}
		fresh[key] = r
	}
	if len(fresh) == 0 {
		return nil
	}
	return b.fail("add", "", b.scope.Update(ctx, func(tx *manager.Tx) error {
		records := b.records.In(tx)
		all, err := records.LoadMany(ctx, slices.Sorted(maps.Keys(fresh))...)
		if err != nil {
			return err
		}
		for key, r := range fresh {
			if old, there := all[key]; there {
				r = old.again(r)
			}
			all[key] = r
		}
		return records.SaveMany(ctx, all)
	}, manager.WithRetry(conflicts)))
}

// again answers what becomes of a record that was seen again. What was seen last
// counts, whichever is told of last.
func (r Record) again(other Record) Record {
	last, before := other, r
	if other.At.Before(r.At) {
		last, before = r, other
	}
	last.Text, last.Kind = cmp.Or(last.Text, before.Text), cmp.Or(last.Kind, before.Kind)
	if last.Metadata == nil {
		last.Metadata = before.Metadata
	}
	if before.First.Before(last.First) {
		last.First = before.First
	}
	last.Seen = r.Seen + other.Seen
	return last
}

func keyOf(user, id string) string { return manager.Key(user, id) }

func idOf(kind, text string) string {
	s := sha256.Sum256([]byte(kind + "\x00" + text))
	return hex.EncodeToString(s[:16])
}

// Get answers a record of a user, or tiers.ErrNotFound.
func (b *Book) Get(ctx context.Context, user, id string) (Record, error) {
	return b.records.Load(ctx, keyOf(user, id))
}

// Delete removes a record of a user and tells whether it was there.
func (b *Book) Delete(ctx context.Context, user, id string) (existed bool, err error) {
	return b.records.Delete(ctx, keyOf(user, id))
}

func (b *Book) fail(op, id string, err error) error {
	if err == nil {
		return nil
	}
	return tiers.Fail(op, "", tiers.Key{Category: b.records.Category(), Name: id}, err)
}
