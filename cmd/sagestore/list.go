package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
)

func (a *app) listCommand() *cobra.Command {
	var (
		prefix, under, after string
		limit                int
		reverse              bool
	)
	c := &cobra.Command{
		Use:   "list CATEGORY",
		Short: "List keys",
		Long: `List the keys of a category in bytewise order, one a line; a key with control
characters is quoted. With --json each line is a JSON object with the key as it
is, the value and the fields of load --entry; the value is null when its codec is
gob or raw. A record that can't be read is reported with its key, the rest is
listed, and the command ends with 1.

Keys are made of segments: --under acme lists acme and acme/..., --prefix acme
lists acme-corp as well.`,
		Example: `  sagestore list session.preferences --prefix user-
  sagestore list session.history --under s-1 --json
  sagestore list session.preferences --after user-42 --limit 100`,
		Args: a.dataArgs(0, 0),
		RunE: func(c *cobra.Command, args []string) error {
			var opts []manager.ListOption
			if prefix != "" {
				opts = append(opts, manager.Prefix(prefix))
			}
			if err := notEmpty(c, "under"); err != nil {
				return err
			}
			if under != "" {
				opts = append(opts, manager.Under(manager.SplitKey(under)...))
			}
			if after != "" {
				opts = append(opts, manager.After(after))
			}
			switch {
			case limit < 0 || limit == 0 && c.Flags().Changed("limit"):
				return usagef("leave it out to list all", "--limit %d: it takes a number from 1", limit)
			case limit > 0:
				opts = append(opts, manager.Limit(limit))
			}
			if reverse {
				opts = append(opts, manager.Reverse())
			}
			if !a.json {
				opts = append(opts, manager.KeysOnly())
			}
			return a.at(c, args, func(p target, _ []string) error { return a.list(c, p, opts) })
		},
	}
	c.Flags().StringVar(&prefix, "prefix", "", "only keys that begin with this `text`")
	c.Flags().StringVar(&under, "under", "", "only this `key` and those below it: acme and acme/..., not acme-corp")
	c.Flags().StringVar(&after, "after", "", "go on after this `key`")
	c.Flags().IntVar(&limit, "limit", 0, "at most this `number` of keys")
	c.Flags().BoolVar(&reverse, "reverse", false, "from the last key to the first")
	c.Flags().BoolVar(&a.json, "json", false, "print one JSON object a line, with values")
	return a.dataFlags(c)
}

func (a *app) list(c *cobra.Command, p place, opts []manager.ListOption) error {
	bad := 0
	for item, err := range p.List(c.Context(), opts...) {
		if err != nil && item.Key == "" {
			return err
		}
		if err := a.printItem(item, err); err != nil {
			if _, unread := errors.AsType[silent](err); !unread {
				return err
			}
			bad++
		}
	}
	if bad > 0 {
		return silent(exitFailed)
	}
	return nil
}

// printItem prints a line of a list, or reports why it can't, which is silent.
func (a *app) printItem(item manager.Item, err error) error {
	line := entryOf(item)
	if err == nil && a.json {
		line.Value, err = itemJSON(item)
	}
	switch {
	case err == nil && a.json:
		return a.printLine(line)
	case err == nil:
		_, err := fmt.Fprintln(a.out, shown(item.Key))
		return err
	}
	a.report(err)
	if a.json {
		f := explain(err)[0]
		if err := a.printLine(unreadable{item.Key, f.text, f.hint}); err != nil {
			return err
		}
	}
	return silent(exitFailed)
}

// itemJSON answers the value as JSON; one that is bytes is null, with its codec
// beside it.
func itemJSON(item manager.Item) (json.RawMessage, error) {
	var stored manager.Encoded
	if err := item.Decode(&stored); err != nil {
		return nil, err
	}
	v, err := asJSON(item, stored)
	if _, ok := errors.AsType[*usageError](err); ok {
		return json.RawMessage("null"), nil
	}
	return v, err
}
