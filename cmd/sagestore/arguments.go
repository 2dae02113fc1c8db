package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// count checks the number of arguments.
func count(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("usage: "+c.UseLine(), "there are too few arguments: %s", given(args))
		case len(args) > most:
			return usagef("usage: "+c.UseLine(), "the argument %q is one too many", args[most])
		}
		return nil
	}
}

func given(args []string) string {
	if len(args) == 0 {
		return "none was given"
	}
	return fmt.Sprintf("%q was given", args)
}

// dataArgs is the check of a command whose first argument is the category,
// which --store leaves out; least and most count the arguments after it.
func (a *app) dataArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if !c.Flags().Changed("store") {
			least, most := least+1, most+1
			if len(args) == least-1 && least > 1 && strings.Contains(args[0], "/") {
				return usagef("usage: "+c.UseLine(), "there are too few arguments: %s, and it looks like a key: CATEGORY comes first", given(args))
			}
			return count(least, most)(c, args)
		}
		if len(args) > most {
			return usagef("with --store NAME there is no CATEGORY before the key", "the argument %q is one too many", args[most])
		}
		return count(least, most)(c, args)
	}
}

// noSuchCommand is for commands that only hold others.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see: " + c.CommandPath() + " --help"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef(hint, "%s has no command %q", c.CommandPath(), args[0])
}

// badFlag makes of what is wrong with a flag a usage error.
func badFlag(c *cobra.Command, err error) error {
	hint := "see: " + c.CommandPath() + " --help"
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := "a number from 0"
		if value.GetFlag().Value.Type() == "bool" {
			kind = "true or false"
		}
		return usagef(hint, "--%s %q: it takes %s", value.GetFlag().Name, value.GetValue(), kind)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		switch name := unknown.GetSpecifiedName(); {
		case unknown.GetSpecifiedShortnames() != "":
			hint = "a key or value that begins with a dash comes after --, as in: " + c.CommandPath() + " -- ..."
		default:
			if near := nearFlag(c, name); near != "" {
				hint = "did you mean --" + near + "?"
			}
		}
	}
	return usagef(hint, "%w", err)
}

// nearFlag answers the flag of a command that a name was meant to be, if any.
func nearFlag(c *cobra.Command, name string) string {
	// cobra knows how far apart two words are, for commands; so each flag is one.
	var names cobra.Command
	names.SuggestionsMinimumDistance = 2
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	near := names.SuggestionsFor(name)
	if len(near) == 0 {
		return ""
	}
	return slices.Min(near)
}

// notEmpty refuses flags that were given without a value, as by an unset
// variable of a script, and would mean something else then.
func notEmpty(c *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usagef("give it a value, or leave it out", "--%s is empty", name)
		}
	}
	return nil
}
