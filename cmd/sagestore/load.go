package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) loadCommand() *cobra.Command {
	var whole, raw bool
	c := &cobra.Command{
		Use:   "load CATEGORY KEY",
		Short: "Print a value",
		Long: `Print a value as JSON. With --entry it is the entry: the value with its version,
times, tier, codec and schema number. A key that is not there is an error (3).
Values of the codecs gob and raw, which are no JSON, come with --raw only.`,
		Example: `  sagestore load session.preferences user-42
  sagestore load session.preferences user-42 --entry
  sagestore load --store file config/settings`,
		Args: a.dataArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.at(c, args, func(p target, args []string) error {
				item, err := p.Item(c.Context(), args[0])
				if err != nil {
					return err
				}
				var stored manager.Encoded
				if err := item.Decode(&stored); err != nil {
					return err
				}
				if raw && !whole {
					_, err := a.out.Write(stored.Value)
					return err
				}
				e := entryOf(item)
				if raw {
					e.Value, err = json.Marshal(stored.Value)
				} else {
					e.Value, err = asJSON(item, stored)
				}
				if err != nil {
					return err
				}
				if whole {
					return a.printJSON(e)
				}
				return a.printValue(e.Value)
			})
		},
	}
	c.Flags().BoolVar(&whole, "entry", false, "print the entry: version, times, tier, codec and value")
	c.Flags().BoolVar(&raw, "raw", false, "print the bytes as the codec made them (with --entry in base64)")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON; values are JSON in any case")
	return a.dataFlags(c)
}

func (a *app) existsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "exists CATEGORY KEY",
		Short:   "Tell whether a key is there",
		Long:    `Print true and end with 0, or print false and end with 3.`,
		Example: `  sagestore exists session.preferences user-42 && echo "known user"`,
		Args:    a.dataArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.at(c, args, func(p target, args []string) error {
				ok, err := p.Exists(c.Context(), args[0])
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(a.out, ok); err != nil {
					return err
				}
				if !ok {
					return silent(exitNotFound)
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON; true and false are JSON in any case")
	return a.dataFlags(c)
}

func (a *app) deleteCommand() *cobra.Command {
	var version uint64
	c := &cobra.Command{
		Use:   "delete CATEGORY KEY",
		Short: "Delete a key",
		Long: `Delete a key. One that is not there is no error, which standard error mentions,
unless --if-version demands a version: then it is a conflict (4).`,
		Example: `  sagestore delete session.preferences user-42
  sagestore delete session.preferences user-42 --if-version 1790000000000000`,
		Args: a.dataArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			var opts []manager.DeleteOption
			if c.Flags().Changed("if-version") {
				opts = append(opts, manager.IfVersion(tiers.Version(version)))
			}
			return a.at(c, args, func(p target, args []string) error {
				existed, err := p.Delete(c.Context(), args[0], opts...)
				if err == nil && !existed {
					_, _ = fmt.Fprintf(a.err, "sagestore: %q was not there\n", args[0])
				}
				return err
			})
		},
	}
	c.Flags().Uint64Var(&version, "if-version", 0, "delete only if this `version` is stored")
	return a.dataFlags(c)
}
