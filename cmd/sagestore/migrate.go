package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
)

// migrateFlags are the flags of migrate.
type migrateFlags struct {
	category        string
	from, to        string // files of configurations
	dryRun, stopped bool
}

func (a *app) migrateCommand() *cobra.Command {
	var f migrateFlags
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Move a category to another tier, or the store to another engine",
		Long: `Move the records of a category, of all namespaces, from the tier where they are to the
one that the configuration names for it now. Stop the program first, change the tier of
the category, then run this. The records keep their versions, times and expiry. They are
copied, read back and compared before the new tier becomes the home, and only then
removed from the old one. When it was interrupted, run it again: it goes on.

With --from and --to move the whole database between SQLite and PostgreSQL: the records of
all categories, sessions, transactions, what was done once and the journal, with versions,
times and expiry. --from is the configuration until now, --to the new one, which differs in
the database only, and whose database is empty. What is left stays as it was.`,
		Example: `  sagestore migrate --category session.preferences --dry-run
  sagestore migrate --category session.preferences
  sagestore migrate --from sagestore.yaml --to postgres.yaml --stopped`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := notEmpty(c, "category", "from", "to"); err != nil {
				return err
			}
			const usage = "usage: sagestore migrate --category NAME, or sagestore migrate --from CONFIG --to CONFIG"
			switch {
			case f.category != "" && f.from == "" && f.to == "":
				return a.migrate(c.Context(), f)
			case f.category == "" && f.from != "" && f.to != "":
				return a.migrateStore(c.Context(), f)
			case f.category != "" && (f.from != "" || f.to != ""):
				return usagef("a category moves to the tier that the configuration names for it; --from and --to move the whole database",
					"--category and --from or --to exclude each other")
			}
			return usagef(usage, "it does not say what to move")
		},
	}
	c.Flags().StringVar(&f.category, "category", "", "the category, by `name`")
	c.Flags().StringVar(&f.from, "from", "", "the `file` with the configuration that the store has had until now")
	c.Flags().StringVar(&f.to, "to", "", "the `file` with the configuration that the store is to have")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "check and count only, and change nothing")
	c.Flags().BoolVar(&f.stopped, "stopped", false, "no program has the store open, where it can't tell that itself: on PostgreSQL")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON Lines: how far it is, and at last what was done")
	_ = c.RegisterFlagCompletionFunc("category", a.completeCategory) // it fails only for a flag that there is not
	return c
}

// migrated is the JSON shape of what was done.
type migrated struct {
	Step     string `json:"step"` // done, or would when it is a dry run
	Category string `json:"category"`
	From     string `json:"from"`
	To       string `json:"to"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256,omitempty"`
	Removed  int64  `json:"removed"`
	Resumed  bool   `json:"resumed"`
}

func (a *app) migrate(ctx context.Context, f migrateFlags) error {
	cfg, _, err := a.readConfig()
	if err != nil {
		return err
	}
	e, err := cfg.Resolve(a.options()...)
	if err != nil {
		return err
	}
	drivers, codecs := standIns(e, a.registry())
	show := a.migrateProgress()
	o := manager.MigrateOptions{DryRun: f.dryRun, Stopped: f.stopped, Progress: show.tell}
	done, err := manager.MigrateCategory(ctx, cfg, drivers, f.category, o, codecs, manager.WithBuckets(openBucket))
	show.end()
	if err != nil {
		return err
	}
	out := migrated{"done", done.Category, done.From, done.To, done.Records, done.Bytes, done.Hash, done.Removed, done.Resumed}
	if f.dryRun {
		out.Step = "would"
	}
	if a.json {
		err = a.printLine(out)
	} else {
		_, err = fmt.Fprintln(a.out, out)
	}
	if f.dryRun {
		return err
	}
	return unprinted(err)
}

// String is what was done, for people.
func (m migrated) String() string {
	switch {
	case m.From == m.To:
		return fmt.Sprintf("%s: nothing to move, its home is %s", m.Category, m.To)
	case m.Step == "would" && m.Resumed:
		return fmt.Sprintf("%s: would go on moving %s, %s, from %s to %s", m.Category, many(m.Records, "record"), sized(m.Bytes), m.From, m.To)
	case m.Step == "would":
		return fmt.Sprintf("%s: would move %s, %s, from %s to %s", m.Category, many(m.Records, "record"), sized(m.Bytes), m.From, m.To)
	case m.SHA256 == "":
		return fmt.Sprintf("%s: was moved from %s to %s before; removed %s from %s", m.Category, m.From, m.To, many(m.Removed, "record"), m.From)
	}
	return fmt.Sprintf("%s: moved %s, %s, from %s to %s, sha256 %s", m.Category, many(m.Records, "record"), sized(m.Bytes), m.From, m.To, m.SHA256)
}
