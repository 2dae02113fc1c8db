package learning

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/manager"
)

// Query selects records. The zero value selects all.
type Query struct {
	User  string    // "": of all users
	Kind  string    // "": of every kind
	Since time.Time // seen at this time or later
	Limit int       // most records; 0: all
}

// Top answers the records that the query selects, the best first: by score, then
// by how often, then by when last they were seen. What can't be read is part of the
// error, beside the rest. A user's records are read alone; all users' make a pass
// over the whole book.
func (b *Book) Top(ctx context.Context, q Query) ([]Record, error) {
	var opts []manager.ListOption
	if q.User != "" {
		opts = append(opts, manager.Prefix(manager.Key(q.User)+"/"))
	}
	return b.top(ctx, q, opts)
}

// topOfAll is Top of the records that are for everybody.
func (b *Book) topOfAll(ctx context.Context, q Query) ([]Record, error) {
	return b.top(ctx, q, []manager.ListOption{manager.Prefix("/")})
}

func (b *Book) top(ctx context.Context, q Query, opts []manager.ListOption) ([]Record, error) {
	var found []Record
	var errs []error
	for e, err := range b.records.List(ctx, opts...) {
		r := e.Value
		switch {
		case err != nil:
			errs = append(errs, err)
		case q.Kind != "" && r.Kind != q.Kind, r.At.Before(q.Since):
		default:
			found = append(found, r)
		}
	}
	slices.SortFunc(found, better)
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, errors.Join(errs...)
}

func better(a, b Record) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Seen, a.Seen), b.At.Compare(a.At),
		strings.Compare(a.User, b.User), strings.Compare(a.ID, b.ID))
}
