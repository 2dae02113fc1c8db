package main

import (
	"context"
	"errors"
	"iter"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// place is where a data command works: a category, or a store named by --store.
type place interface {
	SaveItem(ctx context.Context, key string, v any, opts ...manager.SaveOption) (manager.Item, error)
	Load(ctx context.Context, key string, into any, opts ...manager.LoadOption) error
	Item(ctx context.Context, key string, opts ...manager.LoadOption) (manager.Item, error)
	Exists(ctx context.Context, key string) (bool, error)
	Delete(ctx context.Context, key string, opts ...manager.DeleteOption) (existed bool, err error)
	Touch(ctx context.Context, key string, life ...manager.Life) (existed bool, err error)
	List(ctx context.Context, opts ...manager.ListOption) iter.Seq2[manager.Item, error]
}

// category is the place of a category.
type category struct {
	m    *manager.Manager
	name string
}

func (c category) SaveItem(ctx context.Context, key string, v any, opts ...manager.SaveOption) (manager.Item, error) {
	return c.m.SaveItem(ctx, c.name, key, v, opts...)
}

func (c category) Load(ctx context.Context, key string, into any, opts ...manager.LoadOption) error {
	return c.m.Load(ctx, c.name, key, into, opts...)
}

func (c category) Item(ctx context.Context, key string, opts ...manager.LoadOption) (manager.Item, error) {
	return c.m.Item(ctx, c.name, key, opts...)
}

func (c category) Exists(ctx context.Context, key string) (bool, error) {
	return c.m.Exists(ctx, c.name, key)
}

func (c category) Delete(ctx context.Context, key string, opts ...manager.DeleteOption) (bool, error) {
	return c.m.Delete(ctx, c.name, key, opts...)
}

func (c category) Touch(ctx context.Context, key string, life ...manager.Life) (bool, error) {
	return c.m.Touch(ctx, c.name, key, life...)
}

func (c category) List(ctx context.Context, opts ...manager.ListOption) iter.Seq2[manager.Item, error] {
	return c.m.List(ctx, c.name, opts...)
}

// dataFlags adds the flags of every data command.
func (a *app) dataFlags(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&a.store, "store", "", "use the store of this `name` (cache, database, file, sqlite, postgres, redis) instead of a category; it takes the place of CATEGORY")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.ValidArgsFunction = a.completeCategory
	_ = c.RegisterFlagCompletionFunc("store", a.completeStore) // it fails only for a flag that there is not
	return c
}

// target is a place with what is known about it.
type target struct {
	place
	category, tier, codec string
	namespace             string
}

// key names one key of the target in an error.
func (t target) key(name string) tiers.Key {
	return tiers.Key{Namespace: t.namespace, Category: t.category, Name: name}
}

// at opens the store, finds the target that the arguments name, and calls fn
// with the arguments after it.
func (a *app) at(c *cobra.Command, args []string, fn func(t target, args []string) error) error {
	return a.with(c.Context(), func(m *manager.Manager) error {
		if c.Flags().Changed("store") {
			t, err := a.storeTarget(m, args)
			if err != nil {
				return err
			}
			return fn(t, args)
		}
		policy, err := policyOf(m, args[0])
		if err != nil {
			return err
		}
		if err := refuseMemory(m, policy.Tier, "the category "+args[0]); err != nil {
			return err
		}
		return fn(target{category{m, args[0]}, args[0], policy.Tier, policy.Codec, a.namespace}, args[1:])
	})
}

// storeTarget answers the target of --store.
func (a *app) storeTarget(m *manager.Manager, args []string) (target, error) {
	s := m.Store(a.store)
	if err := checkStore(m, s, "--store"); err != nil {
		return target{}, err
	}
	t := target{place: s, category: "store." + s.Tier(), tier: s.Tier(), namespace: a.namespace}
	policy, err := policyOf(m, t.category)
	if err != nil {
		return target{}, err
	}
	t.codec = policy.Codec
	if len(args) > 0 {
		// On the file tier the first segment of a key may name a category, whose codec holds.
		if category, _ := s.Place(args[0]); category != t.category {
			if p, err := policyOf(m, category); err == nil {
				t.codec = p.Codec
			}
		}
	}
	return t, nil
}

// checkStore answers why a store can't be used, as what named it calls itself.
func checkStore(m *manager.Manager, s *manager.Store, by string) error {
	err := s.Check()
	if f, ok := errors.AsType[*config.Error](err); ok {
		return usagef("", "%s: %s", by, f.Problem)
	}
	if err != nil {
		return err
	}
	return refuseMemory(m, s.Tier(), "the store "+s.Tier())
}

func policyOf(m *manager.Manager, name string) (config.Policy, error) {
	for _, p := range m.Policies() {
		if p.Category == name {
			return p, nil
		}
	}
	if err := m.Check(name); err != nil {
		return config.Policy{}, err
	}
	return m.Config().Policy(name, nil)
}
