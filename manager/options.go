package manager

import (
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// SaveOption is [TTL], [ExpiresAt], [Forever], [IfVersion], [IfAbsent] or
// [Indexed].
type SaveOption interface{ save(o *saveOptions) }

// LoadOption is [Fresh].
type LoadOption interface{ load(o *loadOptions) }

// DeleteOption is [IfVersion].
type DeleteOption interface{ del(o *deleteOptions) }

// ListOption is [Prefix], [Under], [After], [Limit], [Reverse] or [KeysOnly].
type ListOption interface{ list(o *listOptions) }

// Life says how long an entry lives: [TTL], [ExpiresAt] or [Forever].
type Life interface {
	SaveOption
	touch(l *life)
}

// Condition is [IfVersion]: it holds for a save and for a delete.
type Condition interface {
	SaveOption
	DeleteOption
}

type saveOptions struct {
	life  life
	cond  tiers.Cond
	index *tiers.IndexText
}

type loadOptions struct{ fresh bool }

type deleteOptions struct{ cond tiers.Cond }

// life is the lifetime asked for by a call; the zero value leaves it to the
// category.
type life struct {
	set bool
	ttl time.Duration // 0: never; negative: over at once
	at  time.Time     // instead of ttl when not zero
}

// resolve answers the TTL for a tier: fallback when the call named none.
func (l life) resolve(clock tiers.Clock, fallback time.Duration) time.Duration {
	switch {
	case !l.set:
		return fallback
	case l.at.IsZero():
		return l.ttl
	}
	if d := l.at.Sub(clock.Now()); d > 0 {
		return d
	}
	return -1
}

// TTL lets the entry live for d from now. With d of 0 or less the key is absent
// at once.
func TTL(d time.Duration) Life {
	if d <= 0 {
		d = -1
	}
	return lifeOption{life{set: true, ttl: d}}
}

// ExpiresAt lets the entry live until t, by the manager's clock. The zero time
// is [Forever], as in [Entry]; one that is past makes the key absent at once.
func ExpiresAt(t time.Time) Life { return lifeOption{life{set: true, at: t}} }

// Forever lets the entry live until it is deleted, or until its session ends.
func Forever() Life { return lifeOption{life{set: true}} }

type lifeOption struct{ life }

func (l lifeOption) save(o *saveOptions) { o.life = l.life }
func (l lifeOption) touch(to *life)      { *to = l.life }

// IfVersion lets the call succeed only if the stored version is v, else it
// answers tiers.ErrConflict. Version 0 is [IfAbsent].
func IfVersion(v tiers.Version) Condition { return condition{tiers.If(v)} }

// IfAbsent lets the save succeed only if there is no such key, else it answers
// tiers.ErrExists.
func IfAbsent() SaveOption { return condition{tiers.If(0)} }

type condition struct{ tiers.Cond }

func (c condition) save(o *saveOptions)  { o.cond = c.Cond }
func (c condition) del(o *deleteOptions) { o.cond = c.Cond }

// Fresh asks the home tier, past any near layer, which holds what is found.
func Fresh() LoadOption { return fresh{} }

type fresh struct{}

func (fresh) load(o *loadOptions) { o.fresh = true }

func isFresh(opts []LoadOption) bool {
	var o loadOptions
	for _, opt := range opts {
		if opt != nil {
			opt.load(&o)
		}
	}
	return o.fresh
}

func saveOptionsOf(opts []SaveOption) saveOptions {
	if len(opts) == 0 {
		return saveOptions{} // so that o needs no allocation
	}
	var o saveOptions
	for _, opt := range opts {
		if opt != nil {
			opt.save(&o)
		}
	}
	return o
}

func deleteOptionsOf(opts []DeleteOption) deleteOptions {
	if len(opts) == 0 {
		return deleteOptions{} // so that o needs no allocation
	}
	var o deleteOptions
	for _, opt := range opts {
		if opt != nil {
			opt.del(&o)
		}
	}
	return o
}

type listOptions struct {
	prefix   string
	under    string // a key; "": everything
	isUnder  bool
	after    string
	limit    int
	reverse  bool
	keysOnly bool
}

type listOption func(o *listOptions)

func (f listOption) list(o *listOptions) { f(o) }

// Prefix lists the keys that begin with p as text: Prefix("user-") lists
// "user-1" and "user-2/x". No character of p is special.
func Prefix(p string) ListOption { return listOption(func(o *listOptions) { o.prefix = p }) }

// Under lists a sub-tree: the key made of the segments and what is below it.
// Under("acme") lists "acme" and "acme/x", but not "acme-corp/x".
func Under(segments ...string) ListOption {
	key := Key(segments...)
	return listOption(func(o *listOptions) { o.under, o.isUnder = key, len(segments) > 0 })
}

// After lists what lies beyond the key, in the direction of the list.
func After(key string) ListOption { return listOption(func(o *listOptions) { o.after = key }) }

// Limit lists n entries at most; 0 is no limit.
func Limit(n int) ListOption { return listOption(func(o *listOptions) { o.limit = n }) }

// Reverse lists from the last key to the first.
func Reverse() ListOption { return listOption(func(o *listOptions) { o.reverse = true }) }

// KeysOnly leaves the values out: they are zero.
func KeysOnly() ListOption { return listOption(func(o *listOptions) { o.keysOnly = true }) }

func listOptionsOf(opts []ListOption) listOptions {
	if len(opts) == 0 {
		return listOptions{} // so that o needs no allocation
	}
	var o listOptions
	for _, opt := range opts {
		if opt != nil {
			opt.list(&o)
		}
	}
	return o
}
