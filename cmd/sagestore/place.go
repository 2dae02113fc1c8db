package main

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
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
	c.Flags().StringVar(&a.store, "store", "", "use the store of this `name` (memory, cache, database, file, sqlite, redis) instead of a category")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	return c
}

// dataArgs is the check of a command whose first argument is the category,
// which --store leaves out; least and most count the arguments after it.
func (a *app) dataArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("store") {
			return cobra.RangeArgs(least, most)(c, args)
		}
		return cobra.RangeArgs(least+1, most+1)(c, args)
	}
}

// at opens the store, finds the place that the arguments name, and calls fn with
// the arguments after it.
func (a *app) at(c *cobra.Command, args []string, fn func(p place, codec string, args []string) error) error {
	return a.with(c.Context(), func(m *manager.Manager) error {
		if c.Flags().Changed("store") {
			s := m.Store(a.store)
			if err := s.Check(); err != nil {
				return err
			}
			if err := refuseMemory(m, s.Tier(), "the store "+s.Tier()); err != nil {
				return err
			}
			return fn(s, "", args)
		}
		policy, err := policyOf(m, args[0])
		if err != nil {
			return err
		}
		if err := refuseMemory(m, policy.Tier, "the category "+args[0]); err != nil {
			return err
		}
		return fn(category{m, args[0]}, policy.Codec, args[1:])
	})
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
