package manager

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// CollectionOption is [Policy] or [Upgrade].
type CollectionOption interface{ collection(o *collectionOptions) }

type collectionOptions struct {
	policy *config.Category
	steps  []step
}

// Policy is what holds for the category when the configuration has no rule of
// its own for it: a library brings its categories this way. The store remembers
// it, so that tools know the category as well.
func Policy(c config.Category) CollectionOption { return policyOption{c} }

type policyOption struct{ config.Category }

func (p policyOption) collection(o *collectionOptions) { o.policy = &p.Category }

// Upgrade reads records of the schema number from, which hold an Old, and makes
// of each the value of the next number. The upgrades of a collection form a
// chain without gaps whose last New is the collection's T; its schema number is
// the one after the last from, and 1 without upgrades. [Check] finds a broken
// chain. Records are upgraded as they are loaded, and stored anew by the next
// save.
//
// A program that knows fewer schema numbers than a record has can delete it, and
// neither load it nor save over it: [tiers.ErrSchema].
func Upgrade[Old, New any](from uint32, fn func(Old) (New, error)) CollectionOption {
	return step{
		from: from, old: reflect.TypeFor[Old](), next: reflect.TypeFor[New](),
		fresh: func() any { return new(Old) },
		apply: func(v any) (any, error) {
			old, ok := v.(*Old)
			if !ok || fn == nil {
				return nil, errBrokenChain
			}
			next, err := fn(*old)
			return &next, err
		},
	}
}

var errBrokenChain = errors.New("the chain of upgrades is broken; Check says where")

// step is one upgrade. Values between steps are pointers.
type step struct {
	from      uint32
	old, next reflect.Type
	fresh     func() any // an *Old to decode into
	apply     func(old any) (next any, err error)
}

func (s step) collection(o *collectionOptions) { o.steps = append(o.steps, s) }

// chain is the sorted upgrades of a collection.
type chain []step

// current answers the schema number of what the collection saves.
func (c chain) current() uint32 {
	if len(c) == 0 {
		return 1
	}
	return c[len(c)-1].from + 1
}

func chainOf(steps []step) chain {
	c := slices.Clone(steps)
	slices.SortStableFunc(c, func(a, b step) int { return int(a.from) - int(b.from) })
	return c
}

// chainError is ErrSchema without its text, which is about records.
type chainError string

func (e chainError) Error() string { return string(e) }

func (e chainError) Unwrap() error { return tiers.ErrSchema }

// check answers what is wrong with a chain that has to end in a T.
func (c chain) check(t reflect.Type) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, chainError("upgrades: "+fmt.Sprintf(format, args...)))
	}
	for i, s := range c {
		if s.from == 0 {
			bad("schema numbers begin at 1")
		}
		if i == 0 {
			continue
		}
		before := c[i-1]
		switch {
		case s.from == before.from:
			bad("there are two from schema %d", s.from)
		case s.from != before.from+1:
			bad("there is none from schema %d", before.from+1)
		case s.old != before.next:
			bad("the one from schema %d makes a %v, the one from %d takes a %v", before.from, before.next, s.from, s.old)
		}
	}
	if n := len(c); n > 0 && c[n-1].next != t {
		bad("the last makes a %v, the collection holds a %v", c[n-1].next, t)
	}
	return errors.Join(errs...)
}

// upgrade decodes a record of an older schema and answers a pointer to what it
// became.
func (c chain) upgrade(schema uint32, decode func(into any) error) (any, error) {
	i := slices.IndexFunc(c, func(s step) bool { return s.from == schema })
	if i < 0 {
		return nil, tiers.Hint(fmt.Errorf("%w: there is no upgrade from schema %d", tiers.ErrUnsupported, schema),
			"give the collection an Upgrade from it")
	}
	v := c[i].fresh()
	if err := decode(v); err != nil {
		return nil, err
	}
	for _, s := range c[i:] {
		var err error
		if v, err = s.apply(v); err != nil {
			return nil, fmt.Errorf("upgrade from schema %d: %w", s.from, err)
		}
	}
	return v, nil
}
