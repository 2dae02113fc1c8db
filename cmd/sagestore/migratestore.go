package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
)

// storeMigrated is the JSON shape of a store that was moved.
type storeMigrated struct {
	Step         string             `json:"step"` // done, or would when it is a dry run
	From         string             `json:"from"`
	To           string             `json:"to"`
	Categories   []categoryMigrated `json:"categories"`
	Records      int64              `json:"records"`
	Bytes        int64              `json:"bytes"`
	Facts        int64              `json:"facts"`
	Sessions     int64              `json:"sessions"`
	Transactions int64              `json:"transactions"`
	Waiting      int64              `json:"waiting"`
	Resumed      bool               `json:"resumed"`
}

type categoryMigrated struct {
	Category string `json:"category"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256,omitempty"`
}

func (a *app) migrateStore(ctx context.Context, f migrateFlags) error {
	from, err := a.configIn(f.from)
	if err != nil {
		return err
	}
	to, err := a.configIn(f.to)
	if err != nil {
		return err
	}
	e, err := from.Resolve(a.options()...)
	if err != nil {
		return err
	}
	drivers, codecs := standIns(e, a.registry())
	show := a.migrateProgress()
	o := manager.MigrateOptions{DryRun: f.dryRun, Stopped: f.stopped, Progress: show.tell}
	done, err := manager.MigrateStore(ctx, from, to, drivers, o, codecs)
	show.end()
	if err != nil {
		return err
	}
	out := storeMigrated{
		Step: "done", From: done.From, To: done.To, Categories: []categoryMigrated{}, Records: done.Records, Bytes: done.Bytes,
		Facts: done.Facts, Sessions: done.Sessions, Transactions: done.Transactions, Waiting: done.Waiting, Resumed: done.Resumed,
	}
	for _, c := range done.Categories {
		out.Categories = append(out.Categories, categoryMigrated{c.Category, c.Records, c.Bytes, c.Hash})
	}
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

// configIn reads the configuration in a file.
func (a *app) configIn(file string) (*config.Config, error) {
	cfg, err := config.Load(file, a.options()...)
	if errors.Is(err, fs.ErrNotExist) {
		err = usagef("name the file of a configuration", "%w", err)
	}
	return cfg, err
}

// String is what was done, for people.
func (m storeMigrated) String() string {
	if m.Step == "would" {
		return fmt.Sprintf("would move %s, %s, of %d categories from %s to %s", many(m.Records, "record"), sized(m.Bytes), len(m.Categories), m.From, m.To)
	}
	var b strings.Builder
	for _, c := range m.Categories {
		fmt.Fprintf(&b, "%s: %s, %s, sha256 %s\n", c.Category, many(c.Records, "record"), sized(c.Bytes), c.SHA256)
	}
	fmt.Fprintf(&b, "moved %s, %s, from %s to %s, with %s, %s, %s and %s; both hold the same",
		many(m.Records, "record"), sized(m.Bytes), m.From, m.To,
		many(m.Sessions, "session"), many(m.Transactions, "transaction"), many(m.Facts, "fact"), many(m.Waiting, "waiting write"))
	return b.String()
}
