package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) saveCommand() *cobra.Command {
	var (
		ttl      string
		version  uint64
		ifAbsent bool
		raw      bool
	)
	c := &cobra.Command{
		Use:   "save CATEGORY KEY [VALUE|@FILE|-]",
		Short: "Save a value",
		Long: `Save a value under a key. The value is JSON, from the argument, from a file after
"@", or from standard input for "-" and when it is left out. Numbers stay as they
are written. When the command ends with 0, everybody who shares the tier can load
the value. A record that is replaced keeps its schema number.

A failed --if-absent or --if-version, and a session that has ended, end with 4.
Values of the codecs gob and raw, which are no JSON, go in with --raw only.`,
		Example: `  sagestore save session.preferences user-42 '{"theme":"dark"}'
  sagestore save config settings @settings.json
  echo '"a text"' | sagestore save session.history s-1/000001 --ttl 2h
  sagestore save --store database session:123 '{"step":7}' --if-absent
  sagestore save session.preferences user-42 --json -- -5`,
		Args: a.dataArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			opts, err := saveOptions(c, ttl, version, ifAbsent)
			if err != nil {
				return err
			}
			value := args[1:]
			if !c.Flags().Changed("store") {
				value = args[2:]
			}
			b, err := a.input(c.Context(), value)
			if err != nil {
				return err
			}
			return a.at(c, args, func(p target, args []string) error {
				v, err := parse(b, p.codec, raw)
				if err != nil {
					return err
				}
				item, err := p.SaveItem(c.Context(), args[0], v, opts...)
				if err != nil || !a.json {
					return err
				}
				return unprinted(a.printJSON(entryOf(item)))
			})
		},
	}
	c.Flags().StringVar(&ttl, "ttl", "", "expire after this `duration`: seconds, or 90s, 24h, 30d, never; 0 is at once (default: the category's)")
	c.Flags().Uint64Var(&version, "if-version", 0, "save only if this `version` is stored")
	c.Flags().BoolVar(&ifAbsent, "if-absent", false, "save only if the key is not there")
	c.Flags().BoolVar(&raw, "raw", false, "store the bytes as they are, encoded already for the category's codec")
	c.Flags().BoolVar(&a.json, "json", false, "print what was stored, without the value, as JSON")
	return a.dataFlags(c)
}

func saveOptions(c *cobra.Command, ttl string, version uint64, ifAbsent bool) (opts []manager.SaveOption, err error) {
	if ifAbsent && c.Flags().Changed("if-version") {
		return nil, usagef("--if-version 0 is --if-absent", "--if-absent and --if-version exclude each other")
	}
	if c.Flags().Changed("ttl") {
		life, err := lifeOf(ttl)
		if err != nil {
			return nil, err
		}
		opts = append(opts, life)
	}
	if c.Flags().Changed("if-version") {
		opts = append(opts, manager.IfVersion(tiers.Version(version)))
	}
	if ifAbsent {
		opts = append(opts, manager.IfAbsent())
	}
	return opts, nil
}

// lifeOf reads the value of --ttl: the grammar of the configuration, and 0 or a
// negative duration, which is over at once.
func lifeOf(text string) (manager.Life, error) {
	if config.TTL(text) == config.Never {
		return manager.Forever(), nil
	}
	size, negative := strings.CutPrefix(text, "-")
	d, ok := config.TTL(size).Duration()
	zero := size != "" && strings.Trim(strings.TrimRight(size, "smhdw"), "0") == "" && size[0] == '0'
	if !ok && !zero {
		return nil, usagef("write seconds, or 90s, 15m, 24h, 30d, 2w, never", "--ttl %q is no duration", text)
	}
	if negative {
		d = -d
	}
	return manager.TTL(d), nil
}

func (a *app) touchCommand() *cobra.Command {
	var ttl string
	c := &cobra.Command{
		Use:   "touch CATEGORY KEY",
		Short: "Give an entry a new time to live",
		Long: `Give an entry a new time to live: that of --ttl, else the category's. Value and
version stay. A key that is not there is an error (3); an expired one does not
come back, and a --ttl of 0 ends the entry at once.`,
		Example: `  sagestore touch session.history s-1/000001 --ttl 7d`,
		Args:    a.dataArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			var lives []manager.Life
			if c.Flags().Changed("ttl") {
				life, err := lifeOf(ttl)
				if err != nil {
					return err
				}
				lives = append(lives, life)
			}
			return a.at(c, args, func(p target, args []string) error {
				existed, err := p.Touch(c.Context(), args[0], lives...)
				if err == nil && !existed {
					err = tiers.Fail("touch", p.tier, p.key(args[0]), tiers.ErrNotFound)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&ttl, "ttl", "", "expire after this `duration` from now (default: the category's)")
	return a.dataFlags(c)
}
