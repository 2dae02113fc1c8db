package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) backupCommand() *cobra.Command {
	return group("backup", "Make, check and restore backups",
		`Make, list, verify, restore and prune backups of the store, and say how they are
doing. They are where backup.dest of the configuration says, else in backups below
the data directory; docs/OPERATIONS.md says how to run them every night.`,
		a.backupCreateCommand(), a.backupServeCommand(), a.backupListCommand(), a.backupShowCommand(), a.backupVerifyCommand(),
		a.backupRestoreCommand(), a.backupPruneCommand(), a.backupStatusCommand())
}

// backupFlags adds the flags of every backup command.
func (a *app) backupFlags(c *cobra.Command, json string) *cobra.Command {
	c.Flags().StringVar(&a.dest, "destination", "", "`place` of the backups, a directory or the URL of a bucket, instead of backup.dest")
	if json != "" {
		c.Flags().BoolVar(&a.json, "json", false, json)
	}
	c.PreRunE = func(c *cobra.Command, _ []string) error { return notEmpty(c, "destination") }
	return c
}

// destination answers what the flag means: a directory is relative to where the
// command is run.
func destination(text string) (string, error) {
	if strings.Contains(text, "://") || strings.HasPrefix(text, "~") {
		return text, nil
	}
	return filepath.Abs(text)
}

// withBackups calls fn with the backups, without opening the store.
func (a *app) withBackups(ctx context.Context, fn func(b *manager.Backups) error, opts ...manager.OpenOption) (err error) {
	cfg, _, err := a.readConfig()
	if err != nil {
		return err
	}
	e, err := cfg.Resolve(a.options()...)
	if err != nil {
		return err
	}
	if e.InMemory {
		return inMemory()
	}
	drivers, codecs := standIns(e, a.registry())
	b, err := manager.OpenBackups(ctx, cfg, drivers, append(opts, codecs, manager.WithBuckets(openBucket))...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return fn(b)
}

func inMemory() error {
	return usagef("give the categories that matter another tier", "the whole store lives in the memory of one process, so there is nothing to back up")
}

func (a *app) backupCreateCommand() *cobra.Command {
	var cache, empty, newStore bool
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a backup now",
		Long: `Make a backup of the store as it is at one instant, verify it, and remove the ones
that the configuration no longer keeps. Programs that use the store go on; their
commits wait for milliseconds. This is what a timer runs every night when no
program does. It holds the database with its journal and sessions, and the file
tier; what lives in memory or in Redis is in no backup. A store that is not there is
never made for this (3). One that is another than that of the backups until now, as one
is that was lost and made anew, is not backed up before --new-store says that it is
meant (4). One without any record is not backed up, since it may not be the one that is
meant: where there are backups that is an error (1), and where there never was any it is
only said.`,
		Example: `  sagestore backup create
  sagestore backup create --destination ./backups --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			log := slog.New(slog.DiscardHandler)
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				show := a.progress()
				opts := []manager.BackupOption{manager.BackupProgress(show.tell)}
				if cache {
					opts = append(opts, manager.BackupCache())
				}
				if newStore {
					opts = append(opts, manager.BackupNewStore())
				}
				if empty {
					opts = append(opts, manager.BackupAllowEmpty())
				}
				run, err := b.RunOpening(c.Context(), func(ctx context.Context) (*manager.Manager, error) { return a.openStore(ctx, log) }, opts...)
				show.end()
				if run.Untold != nil {
					_, _ = fmt.Fprintf(a.err, "sagestore: %s\n", run.Untold)
				}
				switch {
				case errors.Is(err, backup.ErrNothing):
					return a.printNothing()
				case run.Manifest.ID == "":
					return err
				}
				printing := a.printRun(run, err)
				if err == nil {
					return unprinted(printing)
				}
				return errors.Join(printing, err)
			})
		},
	}
	c.Flags().BoolVar(&cache, "cache", false, "include the cache tier, where it keeps files")
	c.Flags().BoolVar(&empty, "allow-empty", false, "back up a store without any record as well")
	c.Flags().BoolVar(&newStore, "new-store", false, "the store is meant to be another one than that of the backups until now")
	return a.backupFlags(c, "print JSON Lines: how far it is, and at last what was done")
}

// madeBackup is the JSON shape of create.
type madeBackup struct {
	Backup  *backupEntry    `json:"backup"`
	HeldNS  time.Duration   `json:"held_ns"`
	LeftOut []string        `json:"left_out"`
	Pruned  []decisionEntry `json:"pruned"`
}

// printNothing says that there was nothing to back up yet.
func (a *app) printNothing() error {
	if a.json {
		return a.printLine(madeBackup{LeftOut: []string{}, Pruned: []decisionEntry{}})
	}
	_, err := fmt.Fprintln(a.out, "no backup is made: the store has no record yet, and there never was a backup of it; --allow-empty makes one")
	return err
}

// printRun prints what was made; failed is why it is not verified, if it is not.
func (a *app) printRun(run manager.BackupRun, failed error) error {
	e := backup.Entry{ID: run.Manifest.ID, Manifest: run.Manifest, Verified: run.Manifest.Created.Add(run.Manifest.Took), Authentic: run.Report.Authentic}
	switch {
	case !run.Verified:
		e.Verified, e.Err = time.Time{}, failed
	case run.Report.Rehearsed:
		e.Rehearsed = e.Verified
	}
	var removed []backup.Decision
	for _, d := range run.Decisions {
		if !d.Keep {
			removed = append(removed, d)
		}
	}
	if a.json {
		return a.printLine(madeBackup{new(entryOfBackup(e)), run.Manifest.Held, append([]string{}, run.LeftOut...), entriesOf(removed)})
	}
	done := "verified"
	switch {
	case !run.Verified:
		done = "written, and not verified"
	case run.Report.Rehearsed:
		done = "verified and rehearsed"
	}
	m := &run.Manifest
	_, err := fmt.Fprintf(a.out, "%s: %s, %s, %s in %s, took %s, commits waited %s\n",
		m.ID, done, many(run.Report.Records, "record"), sized(m.Bytes()), sized(m.Stored()), took(m.Took), took(m.Held))
	if err != nil {
		return err
	}
	for _, w := range run.Report.Warnings {
		_, _ = fmt.Fprintf(a.err, "sagestore: %s\n", w)
	}
	for _, name := range run.LeftOut {
		_, _ = fmt.Fprintf(a.err, "sagestore: what is in tier %s is not in it: its driver can't be frozen\n", name)
	}
	return a.printDecisions(removed, false)
}

func (a *app) backupServeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Make backups when they are due, until it is stopped",
		Long: `Make backups at the times that the configuration says, as a program with
backup.enabled does, until it is stopped by SIGINT, SIGTERM or SIGHUP; the configuration
of the backups is read once, at the start. It runs whatever backup.enabled
says, and beside programs that do the same: one backup is made for each time. A time
that was missed is made up for once. The store is opened for each backup only.
What happens is logged to standard error.`,
		Example: `  sagestore backup serve
  sagestore backup serve --destination s3://bucket/sage`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(a.err, nil))
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				switch err := b.Existing(); {
				case errors.Is(err, tiers.ErrUnsupported):
					return err
				case err != nil: // it may be made later
					log.Warn("no backup can be made yet", "error", err)
				}
				s, err := b.Status(c.Context())
				if err = cmp.Or(err, s.Unread); err != nil { // it may be there when it is needed
					log.Warn("the backups can't be listed", "error", err)
				}
				log.Info("backups are made", "when", s.Schedule, "where", s.Dest, "next", s.Plan.At.UTC())
				return b.Serve(c.Context(), func(ctx context.Context) (*manager.Manager, error) { return a.openStore(ctx, log) })
			}, manager.WithLogger(log))
		},
	}
	return a.backupFlags(c, "")
}

// openStore opens the store for one backup.
func (a *app) openStore(ctx context.Context, log *slog.Logger) (*manager.Manager, error) {
	cfg, _, err := a.readConfig()
	if err != nil {
		return nil, err
	}
	e, err := cfg.Resolve(a.options()...)
	if err != nil {
		return nil, err
	}
	drivers, codecs := standIns(e, a.registry())
	return manager.Open(ctx, cfg, drivers, manager.WithoutJobs(), codecs, manager.WithBuckets(openBucket), manager.WithLogger(log))
}

func (a *app) backupVerifyCommand() *cobra.Command {
	var rehearse bool
	c := &cobra.Command{
		Use:   "verify ID|latest",
		Short: "Check that a backup can be restored",
		Long: `Read all of a backup and check it: every hash, that it can be decrypted and unpacked,
the integrity of the database, its references and counts, and that records of each
category can be decoded. With --rehearse it is restored to a temporary place, and
every record is decoded. A backup that is sound is marked as verified; the mark is
taken from one that is damaged (1). ID may be latest, which is this store's newest.`,
		Example: `  sagestore backup verify latest
  sagestore backup verify latest --rehearse`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				id := args[0]
				if id == backup.Latest {
					e, err := b.Show(c.Context(), id)
					if err != nil {
						return err
					}
					id = e.ID
				}
				show := a.progress()
				r, err := b.Repo().Telling(show.tell).Verify(c.Context(), id, rehearse)
				show.end()
				if err != nil {
					return err
				}
				for _, w := range r.Warnings {
					_, _ = fmt.Fprintf(a.err, "sagestore: %s\n", w)
				}
				if a.json {
					return a.printLine(verificationOf(r))
				}
				done := "verified"
				if r.Rehearsed {
					done = "verified and rehearsed"
				}
				_, err = fmt.Fprintf(a.out, "%s: %s, %s of %s, %s (%d decoded), %s, took %s\n",
					r.ID, done, many(r.Parts, "part"), sized(r.Bytes), many(r.Records, "record"), r.Decoded, many(r.Files, "file"), took(r.Took))
				return err
			})
		},
	}
	c.Flags().BoolVar(&rehearse, "rehearse", false, "restore it to a temporary place as well")
	return a.backupFlags(c, "print JSON Lines: how far it is, and at last what was done")
}

// verification is the JSON shape of verify.
type verification struct {
	ID        string        `json:"id"`
	Parts     int           `json:"parts"`
	Bytes     int64         `json:"bytes"`
	Records   int64         `json:"records"`
	Decoded   int64         `json:"decoded"`
	Files     int64         `json:"files"`
	Rehearsed bool          `json:"rehearsed"`
	Authentic bool          `json:"authentic"`
	TookNS    time.Duration `json:"took_ns"`
	Warnings  []string      `json:"warnings"`
}

func verificationOf(r backup.Report) verification {
	return verification{r.ID, r.Parts, r.Bytes, r.Records, r.Decoded, r.Files, r.Rehearsed, r.Authentic, r.Took, append([]string{}, r.Warnings...)}
}

func (a *app) backupPruneCommand() *cobra.Command {
	var o manager.PruneOptions
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove the backups that are no longer kept",
		Long: `Remove the backups that the configuration no longer keeps, and say of each in one line
what becomes of it and why. Only verified ones count, and the newest verified one
always stays. When the clock went backwards, or a backup has lost more than half of
the one before, in bytes or records, or all records of a part, none is removed (1):
look, then say that it is right. backup create prunes as well.`,
		Example: `  sagestore backup prune --dry-run
  sagestore backup prune --accept-smaller`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				all, err := b.Prune(c.Context(), o)
				if err != nil && !errors.Is(err, backup.ErrRefused) {
					return err
				}
				printing := a.printDecisions(all, o.DryRun)
				if err == nil && !o.DryRun {
					return unprinted(printing)
				}
				return errors.Join(printing, err)
			})
		},
	}
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what would become of each")
	c.Flags().BoolVar(&o.AcceptClock, "accept-clock", false, "the clock is right, though it went backwards")
	c.Flags().BoolVar(&o.AcceptSmaller, "accept-smaller", false, "the backups made until now are right, though one is much smaller")
	return a.backupFlags(c, "print one backup a line, in JSON Lines")
}

// decisionEntry is the JSON shape of a decision.
type decisionEntry struct {
	ID   string `json:"id"`
	Keep bool   `json:"keep"`
	Why  string `json:"why"`
}

func entriesOf(all []backup.Decision) []decisionEntry {
	out := []decisionEntry{}
	for _, d := range all {
		out = append(out, decisionEntry(d))
	}
	return out
}

func (a *app) printDecisions(all []backup.Decision, dry bool) error {
	for _, d := range all {
		if a.json {
			if err := a.printLine(decisionEntry(d)); err != nil {
				return err
			}
			continue
		}
		what := "keep"
		switch {
		case !d.Keep && dry:
			what = "would remove"
		case !d.Keep:
			what = "removed"
		}
		if _, err := fmt.Fprintf(a.out, "%s %s: %s\n", what, d.ID, d.Why); err != nil {
			return err
		}
	}
	return nil
}
