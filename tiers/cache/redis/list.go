package redis

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// Pages of a list grow and shrink with the size of the values, so that a page
// of large ones does not fill the memory.
const (
	firstPage = 64
	maxPage   = 1024
	pageBytes = 2 << 20
)

// mgetKeys is how many keys one MGET asks for; a longer one would hold up the
// other callers of the server.
const mgetKeys = 256

// headBytes is what a list of keys reads of each value: the head, and the
// longest name of a codec.
const headBytes = headLen + bodyLen + 255

// List yields what the query selects, in order of the key.
func (t *Tier) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	space := tiers.Space{Namespace: q.Namespace, Category: q.Category}
	about := tiers.Key{Namespace: q.Namespace, Category: q.Category}
	if err := space.Check(); err != nil {
		return tiers.Failed[tiers.Record](t.fail("list", about, err))
	}
	if !t.indexed {
		return tiers.Failed[tiers.Record](t.fail("list", about, t.noIndex()))
	}
	return func(yield func(tiers.Record, error) bool) {
		after, page, yielded := q.After, firstPage, 0
		for {
			names, err := t.page(ctx, space, q, after, page)
			if err != nil {
				yield(tiers.Record{}, t.fail("list", about, err))
				return
			}
			found, err := t.read(ctx, space, names, q.KeysOnly)
			if err != nil {
				yield(tiers.Record{}, t.fail("list", about, err))
				return
			}
			bytes := 0
			for i, f := range found {
				bytes += len(f.value)
				if f.err == nil && f.value == nil {
					continue // expired or deleted since
				}
				k := tiers.Key{Namespace: q.Namespace, Category: q.Category, Name: names[i]}
				if !yield(t.listed(k, f, q.KeysOnly)) {
					return
				}
				if yielded++; yielded == q.Limit {
					return
				}
			}
			if len(names) < page {
				return
			}
			after = names[len(names)-1]
			if bytes*2 > pageBytes {
				page = max(1, page/2)
			} else {
				page = min(2*page, maxPage)
			}
		}
	}
}

// listed answers what a list yields for one key.
func (t *Tier) listed(k tiers.Key, f found, keysOnly bool) (tiers.Record, error) {
	r, err := tiers.Record{}, f.err
	switch {
	case err != nil:
	case keysOnly:
		r, _, err = decodeHead(k, f.value)
	default:
		r, err = decode(k, f.value)
	}
	if err != nil {
		return tiers.Record{Key: k}, t.fail("list", k, tiers.Hint(err, corruptHint))
	}
	return r, nil
}

func (t *Tier) noIndex() error {
	return tiers.Hint(fmt.Errorf("%w: the tier keeps no index", tiers.ErrUnsupported), "set redis.index to true and save the records again")
}

// page answers the next names of the index.
func (t *Tier) page(ctx context.Context, s tiers.Space, q tiers.Query, after string, n int) ([]string, error) {
	low, high := "-", "+"
	if q.Prefix != "" {
		low, high = "["+q.Prefix, "("+q.Prefix+"\xff" // no UTF-8 text has such a byte
	}
	args := []any{"zrangebylex", t.names.bucket(s), low, high, "limit", 0, n}
	switch {
	case q.Reverse:
		if after != "" && (q.Prefix == "" || after < q.Prefix+"\xff") {
			high = "(" + after
		}
		args[0], args[2], args[3] = "zrevrangebylex", high, low
	case after != "" && after >= q.Prefix:
		args[2] = "(" + after
	}
	c := newRead(replyTexts, args...)
	if err := t.run(ctx, c); err != nil {
		return nil, err
	}
	return c.texts, nil
}

// found is a stored value, nil when there is none, or why it can't be read.
type found struct {
	value []byte
	err   error
}

// read reads the values of names, or their beginnings.
func (t *Tier) read(ctx context.Context, s tiers.Space, names []string, heads bool) ([]found, error) {
	bucket := t.names.bucket(s) + ":"
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = bucket + n
	}
	if heads {
		return t.each(ctx, keys, func(key string) *call { return newRead(replyText, "getrange", key, 0, headBytes-1) })
	}
	return t.fetch(ctx, keys)
}

// fetch reads values. MGET does not tell a key of another type from an absent
// one, so what it finds absent is looked at again when it exists.
func (t *Tier) fetch(ctx context.Context, keys []string) ([]found, error) {
	out := make([]found, len(keys))
	var cs []*call
	for chunk := range slices.Chunk(keys, mgetKeys) {
		cs = append(cs, newRead(replyTexts, command("mget", chunk)...))
	}
	if len(cs) == 0 {
		return out, ctx.Err()
	}
	if err := t.run(ctx, cs...); err != nil {
		return nil, err
	}
	var missing []string
	var at []int
	for i, c := range cs {
		for j, v := range c.texts {
			if n := i*mgetKeys + j; v != "" {
				out[n].value = []byte(v)
			} else {
				missing, at = append(missing, keys[n]), append(at, n)
			}
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	there := newRead(replyInt, command("exists", missing)...)
	if err := t.run(ctx, there); err != nil || there.n == 0 {
		return out, err
	}
	again, err := t.each(ctx, missing, func(key string) *call { return newRead(replyText, "get", key) })
	if err != nil {
		return nil, err
	}
	for i, f := range again {
		out[at[i]] = f
	}
	return out, nil
}

// each reads keys with a command each. What the server says of one key stays
// with that key.
func (t *Tier) each(ctx context.Context, keys []string, read func(key string) *call) ([]found, error) {
	out := make([]found, len(keys))
	for begin := 0; begin < len(keys); begin += maxCalls {
		part := keys[begin:min(begin+maxCalls, len(keys))]
		cs := make([]*call, len(part))
		for i, key := range part {
			cs[i] = read(key)
		}
		if err := t.run(ctx, cs...); err != nil && !corrupt(err) {
			return nil, err
		}
		for i, c := range cs {
			switch {
			case corrupt(c.err):
				out[begin+i].err = c.err
			case c.err != nil:
				return nil, c.err
			case len(c.text) > 0:
				out[begin+i].value = c.text
			}
		}
	}
	return out, nil
}

func command(name string, keys []string) []any {
	args := make([]any, 0, 1+len(keys))
	args = append(args, name)
	for _, k := range keys {
		args = append(args, k)
	}
	return args
}

// Spaces yields the spaces that hold records.
func (t *Tier) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) {
		spaces, err := t.allSpaces(ctx)
		if err != nil {
			yield(tiers.Space{}, t.fail("list spaces", tiers.Key{}, err))
			return
		}
		for _, s := range spaces {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (t *Tier) allSpaces(ctx context.Context) ([]tiers.Space, error) {
	c := newRead(replyTexts, "smembers", t.names.spaces)
	if err := t.run(ctx, c); err != nil {
		return nil, err
	}
	spaces := make([]tiers.Space, 0, len(c.texts))
	for _, m := range c.texts {
		if s, ok := spaceOf(m); ok {
			spaces = append(spaces, s)
		}
	}
	slices.SortFunc(spaces, compareSpaces)
	return spaces, nil
}

func compareSpaces(a, b tiers.Space) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Category, b.Category)
}
