package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/manager"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	at, to     string
	categories []string
	adopt, yes bool
	stopped    bool
}

func (a *app) backupRestoreCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore [ID]",
		Short: "Restore a backup",
		Long: `Restore a backup, which is verified first: nothing changes before all of it is known to
be sound. ID may be latest; --at takes the newest verified one of that time or before.
Both mean a backup of this store; that of another one is named by its id.

Without more it replaces the store, which nobody may have open: what was there is kept
beside, and its places are printed. With --to DIR the store stays as it is, and DIR
becomes one of its own, which every command reads with --restored DIR. With --category
NAME the store may be in use: the records of that category, of all namespaces, become
those of the backup, all at once, however many they are; only the parts of the backup
that hold them are looked at.`,
		Example: `  sagestore backup restore latest --to ./drill
  sagestore backup restore --at "2026-11-28 03:30" --category session.preferences --yes`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case f.at == "" && len(args) == 0:
				return usagef("usage: "+c.UseLine(), "name a backup, such as latest, or give --at")
			case f.at != "" && len(args) > 0:
				return usagef("leave one of both out", "there are %q and --at", args[0])
			case f.to != "" && len(f.categories) > 0:
				return usagef("restore all of it with --to, and look at what you need there", "--to and --category exclude each other")
			}
			return count(0, 1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := notEmpty(c, "at", "to"); err != nil {
				return err
			}
			return a.restoreBackup(c.Context(), args, f)
		},
	}
	c.Flags().StringVar(&f.at, "at", "", "the newest verified backup of this `time` or before, instead of ID")
	c.Flags().StringVar(&f.to, "to", "", "restore into this `directory`, which is empty or not there")
	c.Flags().StringArrayVar(&f.categories, "category", nil, "restore only this category, by `name`, into the running store; may be given several times")
	c.Flags().BoolVar(&f.adopt, "adopt", false, "restore the backup of another store")
	c.Flags().BoolVar(&f.stopped, "stopped", false, "no program has the store open, where it can't tell that itself: on PostgreSQL")
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	return a.backupFlags(c, "print JSON Lines: how far it is, and at last what was done")
}

func (a *app) restoreBackup(ctx context.Context, args []string, f restoreFlags) error {
	return a.withBackups(ctx, func(b *manager.Backups) error {
		e, err := chooseBackup(ctx, b, args, f.at)
		if err != nil {
			return err
		}
		made := fmt.Sprintf("backup %s of %s", e.ID, instant(e.Manifest.Created))
		if len(f.categories) > 0 {
			what := fmt.Sprintf("replace all records of %s by those of %s", strings.Join(f.categories, ", "), made)
			if err := a.ask(ctx, what, f.yes, "add --yes, or look first with backup show, or with --to DIR"); err != nil {
				return err
			}
			return a.restoreCategories(ctx, b, e.ID, f)
		}
		if placed := b.Effective().PlacedOutside(); a.dataDir != "" && f.to == "" && len(placed) > 0 {
			return usagef("leave --data-dir out to replace that store; restore beside it with --to DIR, and look there with --restored DIR",
				"--data-dir does not move the store: %s", strings.Join(placed, ", "))
		}
		if f.to == "" {
			what := fmt.Sprintf("replace the store in %s by %s", b.Effective().DataDir, made)
			if err := a.ask(ctx, what, f.yes, "add --yes, or look first with backup show, or with --to DIR"); err != nil {
				return err
			}
		}
		return a.restoreStore(ctx, b, e.ID, f)
	})
}

func chooseBackup(ctx context.Context, b *manager.Backups, args []string, at string) (backup.Entry, error) {
	if at == "" {
		return b.Show(ctx, args[0])
	}
	t, err := parseTime(at)
	if err != nil {
		return backup.Entry{}, err
	}
	return b.At(ctx, t)
}

// restored is the JSON shape of restore.
type restored struct {
	ID       string            `json:"id"`
	Places   map[string]string `json:"places,omitempty"`
	Replaced []string          `json:"replaced"` // where what was there before is
	Without  []string          `json:"without"`  // parts that have no place in this store
	Records  int64             `json:"records"`
}

func (a *app) restoreStore(ctx context.Context, b *manager.Backups, id string, f restoreFlags) error {
	show := a.progress()
	o := manager.RestoreOptions{To: f.to, Stopped: f.stopped, Adopt: f.adopt, Progress: show.tell}
	file, err := a.configFile()
	if err != nil {
		return err
	}
	if file != "" {
		o.Protect = append(o.Protect, file)
	}
	done, err := b.Restore(ctx, id, o)
	show.end()
	if err != nil {
		return err
	}
	out := restored{done.ID, done.Places, append([]string{}, done.Replaced...), append([]string{}, done.Without...), done.Report.Records}
	if a.json {
		return unprinted(a.printLine(out))
	}
	var places []string
	for part, place := range out.Places {
		places = append(places, fmt.Sprintf("%s: %s", part, place))
	}
	slices.Sort(places)
	if _, err := fmt.Fprintf(a.out, "restored %s, %s\n%s\n", out.ID, many(out.Records, "record"), strings.Join(places, "\n")); err != nil {
		return unprinted(err)
	}
	for _, path := range out.Replaced {
		if _, err := fmt.Fprintf(a.out, "what was there before: %s\n", path); err != nil {
			return unprinted(err)
		}
	}
	if f.to != "" {
		a.tellUnloaded(out.ID, out.Places["database"], b.Effective().Backup.Dest)
	}
	for _, part := range out.Without {
		_, _ = fmt.Fprintf(a.err, "sagestore: part %s was left out: this store has no place for it\n", part)
	}
	return nil
}

// restoredCategory is the JSON shape of restore --category, of each.
type restoredCategory struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Tier     string `json:"tier"`
	Records  int64  `json:"records"`
	Expired  int64  `json:"expired"` // records of the backup that have expired since, and are left out
	Replaced int64  `json:"replaced"`
}

// restoreCategories brings categories into the store, which may be in use.
func (a *app) restoreCategories(ctx context.Context, b *manager.Backups, id string, f restoreFlags) (err error) {
	if err := b.Existing(); err != nil { // opening it would make it
		return err
	}
	log := slog.New(slog.DiscardHandler)
	m, err := a.openStore(ctx, log)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
		defer cancel()
		err = errors.Join(err, m.Close(ending))
	}()
	for _, name := range f.categories { // a word about a wrong name comes before the work
		policy, err := policyOf(m, name)
		if err != nil {
			return err
		}
		if err := refuseMemory(m, policy.Tier, "the category "+name); err != nil {
			return err
		}
	}
	show := a.progress()
	done, err := b.RestoreCategories(ctx, m, id, f.categories, manager.RestoreOptions{Adopt: f.adopt, Progress: show.tell})
	show.end()
	printing := a.printRestored(id, done)
	if err != nil {
		return errors.Join(printing, err)
	}
	a.applyRestored(ctx, m, done)
	return unprinted(printing)
}

func (a *app) printRestored(id string, done []manager.CategoryRestored) error {
	for _, d := range done {
		out := restoredCategory{id, d.Category, d.Tier, d.Records, d.Expired, d.Replaced}
		if a.json {
			if err := a.printLine(out); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(a.out, "restored %s: %s in place of %d, %d have expired since\n", out.Category, many(out.Records, "record"), out.Replaced, out.Expired); err != nil {
			return err
		}
	}
	return nil
}

// applyRestored brings what was restored to its tiers, which is seen by everybody already.
// That it takes long, or does not work now, is no failure of the restore.
func (a *app) applyRestored(ctx context.Context, m *manager.Manager, done []manager.CategoryRestored) {
	tried := map[string]bool{}
	for _, d := range done {
		if tried[d.Tier] {
			continue
		}
		tried[d.Tier] = true
		if left, err := m.ApplyPending(ctx, d.Tier, true); err != nil || len(left) > 0 {
			_, _ = fmt.Fprintf(a.err, "sagestore: %d of its records wait to be written to the %s tier, which programs of the store do; all see them already\n"+
				"hint: `sagestore journal list` shows them\n", left[d.Tier], d.Tier)
		}
	}
}
