package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// backupEntry is the JSON shape of a backup.
type backupEntry struct {
	ID        string        `json:"id"`
	Created   time.Time     `json:"created"`
	TookNS    time.Duration `json:"took_ns"`
	Bytes     int64         `json:"bytes"`
	Stored    int64         `json:"stored"`
	Records   int64         `json:"records"`
	Encrypted bool          `json:"encrypted"`
	Authentic bool          `json:"authentic"`
	Verified  time.Time     `json:"verified,omitzero"`
	Rehearsed bool          `json:"rehearsed"`
	Error     string        `json:"error,omitempty"`
}

func entryOfBackup(e backup.Entry) backupEntry {
	m := &e.Manifest
	out := backupEntry{
		ID: e.ID, Created: m.Created, TookNS: m.Took, Bytes: m.Bytes(), Stored: m.Stored(), Encrypted: m.Encrypted(),
		Authentic: e.Authentic, Verified: e.Verified.UTC(), Rehearsed: e.Rehearsed,
	}
	for _, n := range m.Records() {
		out.Records += n
	}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	return out
}

// state says in a word or two whether a backup counts.
func (e backupEntry) state() string {
	switch {
	case e.Error != "":
		return "can't be used: " + e.Error
	case e.Verified.IsZero():
		return "not verified"
	case e.Rehearsed:
		return "verified, rehearsed"
	}
	return "verified"
}

func (a *app) backupListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the backups",
		Long: `List the backups, the newest first, and say below when the last good one was made and
when the next is due. One that can't be used is listed with the reason.`,
		Example: `  sagestore backup list
  sagestore backup list --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withBackups(c.Context(), func(b *manager.Backups) error { return a.listBackups(c.Context(), b) })
		},
	}
	return a.backupFlags(c, "print one backup a line, in JSON Lines")
}

func (a *app) listBackups(ctx context.Context, b *manager.Backups) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	if !a.json {
		_, _ = fmt.Fprintln(w, "ID\tCREATED\tRECORDS\tSIZE\tSTORED\tTOOK\tSTATE")
	}
	for e, err := range b.Repo().List(ctx) {
		if err != nil {
			return err
		}
		one := entryOfBackup(e)
		if a.json {
			if err := a.printLine(one); err != nil {
				return err
			}
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", one.ID, instant(one.Created), one.Records, sized(one.Bytes), sized(one.Stored), took(one.TookNS), one.state())
	}
	if err := w.Flush(); err != nil || a.json {
		return err
	}
	s, err := b.Status(ctx)
	if err != nil {
		return err
	}
	return a.printStatusLines(a.out, s)
}

func (a *app) backupShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a backup",
		Long: `Show what a backup holds: its parts, the records of each category, sizes, how long it
took, for how long commits waited, and what made it. ID may be latest.`,
		Example: `  sagestore backup show latest
  sagestore backup show latest --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				e, err := b.Repo().Show(c.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printLine(shownBackup{entryOfBackup(e), &e.Manifest})
				}
				return a.showBackup(e)
			})
		},
	}
	return a.backupFlags(c, "print one line of JSON, with the manifest")
}

// shownBackup is the JSON shape of show.
type shownBackup struct {
	backupEntry

	Manifest *backup.Manifest `json:"manifest"`
}

func (a *app) showBackup(e backup.Entry) error {
	one, m := entryOfBackup(e), &e.Manifest
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { _, _ = fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	line("backup", "%s", one.ID)
	line("state", "%s", one.state())
	if !one.Verified.IsZero() {
		line("verified", "%s", instant(one.Verified))
	}
	line("created", "%s, took %s, commits waited %s", instant(m.Created), took(m.Took), took(m.Held))
	line("store", "%s", cmp.Or(m.Store, "unknown"))
	line("size", "%s, stored in %s", sized(one.Bytes), sized(one.Stored))
	line("protected", "%s", protection(one))
	var by []string
	for name, version := range m.Tools {
		by = append(by, name+" "+version)
	}
	slices.Sort(by)
	line("made by", "%s", strings.Join(by, ", "))
	if err := w.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "\nPART\tFORMAT\tSIZE\tSTORED\tRECORDS\tFILES")
	for _, p := range m.Parts {
		records := int64(0)
		for _, r := range p.Records {
			records += r.Records
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\n", p.Name, p.Format, sized(p.Plain.Bytes), sized(p.Stored.Bytes), records, p.Rows["files"])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "\nCATEGORY\tNAMESPACE\tRECORDS")
	for _, p := range m.Parts {
		for _, r := range p.Records {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%d\n", r.Category, r.Namespace, r.Records)
		}
	}
	return w.Flush()
}

func protection(e backupEntry) string {
	text := "not encrypted"
	if e.Encrypted {
		text = "encrypted"
	}
	if e.Authentic {
		return text + ", signature checked"
	}
	return text + ", no signature was checked"
}

func (a *app) backupStatusCommand() *cobra.Command {
	var age string
	c := &cobra.Command{
		Use:   "status",
		Short: "Say how the backups are doing",
		Long: `Say where backups go and when they are made, when the last good one was, how long it
took, and when the next is due. What is wrong, and what deserves a second look, comes
below as in doctor. It ends with 1 when something is wrong, or when the newest verified
backup is older than --max-age: for a monitor.`,
		Example: `  sagestore backup status
  sagestore backup status --max-age 26h`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			limit, err := ageOf(c, age)
			if err != nil {
				return err
			}
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				s, err := b.Status(c.Context())
				if err != nil {
					return err
				}
				return a.reportStatus(s, limit)
			})
		},
	}
	c.Flags().StringVar(&age, "max-age", "", "`duration` that the newest verified backup may be old, such as 26h")
	return a.backupFlags(c, "print JSON")
}

func ageOf(c *cobra.Command, text string) (time.Duration, error) {
	if !c.Flags().Changed("max-age") {
		return 0, nil
	}
	d, ok := config.TTL(text).Duration()
	if !ok {
		return 0, usagef("write 26h or 2d", "--max-age %q is no duration", text)
	}
	return d, nil
}

// backupHealth is the JSON shape of status.
type backupHealth struct {
	OK       bool            `json:"ok"`
	Enabled  bool            `json:"enabled"`
	Dest     string          `json:"destination"`
	Schedule string          `json:"schedule"`
	Next     time.Time       `json:"next"`
	Latest   *backupEntry    `json:"latest"`
	AgeNS    time.Duration   `json:"age_ns,omitempty"`
	Backups  int             `json:"backups"`
	Verified int             `json:"verified"`
	Stored   int64           `json:"stored"`
	Findings []tiers.Finding `json:"findings"`
}

func (a *app) reportStatus(s manager.BackupStatus, limit time.Duration) error {
	h := backupHealth{
		Enabled: s.Enabled, Dest: s.Dest, Schedule: s.Schedule, Next: s.Plan.At.UTC(), Backups: s.Backups, Verified: s.Verified, Stored: s.Stored,
	}
	now := tiers.SystemClock().Now()
	if s.Latest != nil {
		h.Latest = new(entryOfBackup(*s.Latest))
		h.AgeNS = now.Sub(h.Latest.Created)
	}
	switch {
	case limit == 0:
	case h.Latest == nil:
		s.Findings = append(s.Findings, tiers.Finding{Subject: "backup: age", Message: "there is no verified backup", Hint: "make one with sagestore backup create"})
	case h.AgeNS > limit:
		s.Findings = append(s.Findings, tiers.Finding{
			Subject: "backup: age", Message: fmt.Sprintf("the newest verified backup is %s old, and %s are allowed", took(h.AgeNS), took(limit)),
			Hint: "see the log of what makes backups, and make one with sagestore backup create",
		})
	}
	h.Findings = append([]tiers.Finding{}, s.Findings...)
	h.OK = !slices.ContainsFunc(s.Findings, func(f tiers.Finding) bool { return !f.OK })
	var err error
	if a.json {
		err = a.printJSON(h)
	} else {
		err = a.printStatus(s)
	}
	if err == nil && !h.OK {
		err = silent(exitFailed)
	}
	return err
}

func (a *app) printStatus(s manager.BackupStatus) error {
	if _, err := fmt.Fprintf(a.out, "destination: %s, %d backups, %d verified, %s\nschedule: %s\n", s.Dest, s.Backups, s.Verified, sized(s.Stored), s.Schedule); err != nil {
		return err
	}
	if err := a.printStatusLines(a.out, s); err != nil {
		return err
	}
	return a.printFindings(s.Findings)
}

// printStatusLines says when the last good backup was and whether the next will be.
func (a *app) printStatusLines(w io.Writer, s manager.BackupStatus) error {
	last := "last good: none"
	if s.Latest != nil {
		m := &s.Latest.Manifest
		last = fmt.Sprintf("last good: %s, %s ago, took %s", instant(m.Created), took(tiers.SystemClock().Now().Sub(m.Created)), took(m.Took))
	}
	next := "next: none by itself, since backup.enabled is not set; sagestore backup serve would make one at " + instant(s.Plan.At)
	if s.Enabled {
		next = "next: " + instant(s.Plan.At) + ", by a program that has the store open or by sagestore backup serve"
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", last, next)
	return err
}
