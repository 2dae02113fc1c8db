package main

import (
	"fmt"
	"time"

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
"@", or from standard input for "-" and when it is left out. It is on the tier
when the command ends with 0.`,
		Example: `  sagestore save session.preferences user-42 '{"theme":"dark"}'
  sagestore save config settings @settings.json
  echo '"a text"' | sagestore save session.history s-1/000001 --ttl 2h
  sagestore save --store database session:123 '{"step":7}' --if-absent`,
		Args: a.dataArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			opts, err := saveOptions(c, ttl, version, ifAbsent)
			if err != nil {
				return err
			}
			return a.at(c, args, func(p place, codec string, args []string) error {
				b, err := a.input(args[1:])
				if err != nil {
					return err
				}
				v, err := parse(b, codecOf(codec), raw)
				if err != nil {
					return err
				}
				_, err = p.SaveItem(c.Context(), args[0], v, opts...)
				return err
			})
		},
	}
	c.Flags().StringVar(&ttl, "ttl", "", "expire after this `duration`: seconds, or 90s, 24h, 30d, never (default: the category's)")
	c.Flags().Uint64Var(&version, "if-version", 0, "save only if this `version` is stored")
	c.Flags().BoolVar(&ifAbsent, "if-absent", false, "save only if the key is not there")
	c.Flags().BoolVar(&raw, "raw", false, "store the bytes as they are, encoded already for the category's codec")
	c.MarkFlagsMutuallyExclusive("if-version", "if-absent")
	return a.dataFlags(c)
}

// codecOf answers the codec of a category; stores use JSON.
func codecOf(codec string) string {
	if codec == "" {
		return "json"
	}
	return codec
}

func saveOptions(c *cobra.Command, ttl string, version uint64, ifAbsent bool) (opts []manager.SaveOption, err error) {
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

// lifeOf reads the value of --ttl, in the grammar of the configuration.
func lifeOf(text string) (manager.Life, error) {
	if config.TTL(text) == config.Never {
		return manager.Forever(), nil
	}
	d, ok := config.TTL(text).Duration()
	if text == "" || !ok || d == 0 && text != "0" && text != "0s" {
		return nil, usagef("write seconds, or 90s, 24h, 30d, 2w, never", "--ttl %q is no duration", text)
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
come back.`,
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
			return a.at(c, args, func(p place, _ string, args []string) error {
				existed, err := p.Touch(c.Context(), args[0], lives...)
				if err == nil && !existed {
					err = fmt.Errorf("touch %q: %w", args[0], tiers.ErrNotFound)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&ttl, "ttl", "", "expire after this `duration` from now (default: the category's)")
	return a.dataFlags(c)
}

// instant is how times are printed; the zero time is nothing.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
