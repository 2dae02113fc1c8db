package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// backupSize is what only the manifest tells: of one that can't be read it is not known,
// and not there.
type backupSize struct {
	TookNS    time.Duration `json:"took_ns"`
	Bytes     int64         `json:"bytes"`
	Stored    int64         `json:"stored"`
	Records   int64         `json:"records"`
	Encrypted bool          `json:"encrypted"`
}

// columns are the records, the sizes and the duration for people.
func (s *backupSize) columns() []string {
	if s == nil {
		return []string{"-", "-", "-", "-"}
	}
	return []string{strconv.FormatInt(s.Records, 10), sized(s.Bytes), sized(s.Stored), took(s.TookNS)}
}

// backupEntry is the JSON shape of a backup.
type backupEntry struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Store   string    `json:"store"` // "": not known
	*backupSize
	Authentic bool      `json:"authentic"`
	Verified  time.Time `json:"verified,omitzero"`
	Rehearsed bool      `json:"rehearsed"`
	Error     string    `json:"error,omitempty"`
	Note      string    `json:"note,omitempty"` // why what the last verification noted can't be used
}

func entryOfBackup(e backup.Entry) backupEntry {
	m := &e.Manifest
	out := backupEntry{
		ID: e.ID, Created: m.Created, Store: m.Store, Authentic: e.Authentic, Verified: e.Verified.UTC(), Rehearsed: !e.Rehearsed.IsZero(),
	}
	if len(m.Parts) > 0 { // else nothing is known but the id
		out.backupSize = &backupSize{TookNS: m.Took, Bytes: m.Bytes(), Stored: m.Stored(), Encrypted: m.Encrypted()}
		for _, n := range m.Records() {
			out.Records += n
		}
	}
	switch {
	case e.Err != nil:
		out.Error = misfit.Words(e.Err)
	case e.Damaged != "":
		out.Error = "found damaged: " + e.Damaged
	case e.Note != nil:
		out.Note = misfit.Words(e.Note)
	}
	return out
}

// state says in a word or two whether a backup counts.
func (e backupEntry) state() string {
	switch {
	case e.Error != "":
		return "can't be used: " + e.Error
	case e.Note != "":
		return "not verified: the note of the last verification can't be used: " + e.Note
	case e.Verified.IsZero():
		return "not verified"
	case e.Rehearsed:
		return "verified, rehearsed"
	}
	return "verified"
}

func (a *app) backupListCommand() *cobra.Command {
	var age string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the backups",
		Long: `List the backups, the newest first, and say below when the last good one was made and
when the next is due. One that can't be used is listed with the reason, and where there
are backups of several stores it is said whose each is. It ends with 1
when the newest verified one is older than --max-age, or of the future.`,
		Example: `  sagestore backup list
  sagestore backup list --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			limit, err := ageOf(c, age)
			if err != nil {
				return err
			}
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				latest, err := a.listBackups(c.Context(), b)
				if err != nil || limit == 0 {
					return err
				}
				return a.refuseAge(newestVerified, latest, limit)
			})
		},
	}
	maxAge(c, &age, newestVerified)
	return a.backupFlags(c, "print one backup a line, in JSON Lines")
}

// listBackups prints the backups and answers the newest verified one of the store, or nil.
func (a *app) listBackups(ctx context.Context, b *manager.Backups) (latest *backup.Entry, err error) {
	var all []backup.Entry
	for e, err := range b.Repo().List(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
		if a.json {
			if err := a.printLine(entryOfBackup(e)); err != nil {
				return nil, err
			}
		}
	}
	if !a.json {
		if err := a.printBackups(all, b.OwnStore(ctx)); err != nil {
			return nil, err
		}
	}
	s, err := b.Status(ctx)
	if err = cmp.Or(err, s.Unread); err != nil || a.json {
		return s.Latest, err
	}
	return s.Latest, a.printStatusLines(a.out, s)
}

// printBackups prints a table, which says whose each backup is once there are several
// stores.
func (a *app) printBackups(all []backup.Entry, own string) error {
	shared := slices.ContainsFunc(all, func(e backup.Entry) bool {
		first := cmp.Or(own, all[0].Manifest.Store)
		return len(e.Manifest.Parts) > 0 && e.Manifest.Store != first
	})
	t := &table{whole: true, columns: []column{
		{title: "ID"},
		{title: "CREATED", spare: 2},
		{title: "STORE", spare: 1},
		{title: "RECORDS", spare: 4},
		{title: "SIZE", spare: 3},
		{title: "STORED", spare: 5},
		{title: "TOOK", spare: 6},
		{title: "STATE", shrink: true, least: 12},
	}}
	for _, e := range all {
		one := entryOfBackup(e)
		row := append([]string{one.ID, instant(one.Created), storeColumn(one.Store, own)}, one.columns()...)
		t.add(append(row, one.state())...)
	}
	if !shared {
		t = t.without(2)
	}
	return a.printTable(*t)
}

// storeColumn is the beginning of a store's id; this store's own is marked.
func storeColumn(store, own string) string {
	const enough = 8
	switch store {
	case "":
		return "-"
	case own:
		return store[:min(enough, len(store))] + " (this)"
	}
	return store[:min(enough, len(store))]
}

func (a *app) backupShowCommand() *cobra.Command {
	var age string
	c := &cobra.Command{
		Use:   "show ID|latest",
		Short: "Show a backup",
		Long: `Show what a backup holds: its parts, the records of each category, sizes, how long it
took, for how long commits waited, and what made it. ID may be latest, which is this
store's newest. It ends with 1 when it is older than --max-age, or of the future.`,
		Example: `  sagestore backup show latest
  sagestore backup show latest --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			limit, err := ageOf(c, age)
			if err != nil {
				return err
			}
			return a.withBackups(c.Context(), func(b *manager.Backups) error {
				e, err := b.Show(c.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					shown := shownBackup{backupEntry: entryOfBackup(e)}
					if shown.backupSize != nil {
						shown.Manifest = &e.Manifest
					}
					err = a.printLine(shown)
				} else {
					err = a.showBackup(e)
				}
				if err != nil || limit == 0 {
					return err
				}
				return a.refuseAge("backup "+e.ID, &e, limit)
			})
		},
	}
	maxAge(c, &age, "the backup")
	return a.backupFlags(c, "print one line of JSON, with the manifest")
}

// shownBackup is the JSON shape of show.
type shownBackup struct {
	backupEntry

	Manifest *backup.Manifest `json:"manifest"` // null: it can't be read
}

func (a *app) showBackup(e backup.Entry) error {
	one, m := entryOfBackup(e), &e.Manifest
	p := &properties{width: a.width()}
	p.line("backup", one.ID)
	p.line("state", one.state())
	if !one.Verified.IsZero() {
		p.line("verified", instant(one.Verified))
	}
	if one.backupSize == nil { // its manifest can't be read
		p.line("created", instant(m.Created))
		_, err := a.out.Write(p.Bytes())
		return err
	}
	p.line("created", fmt.Sprintf("%s, took %s, commits waited %s", instant(m.Created), took(m.Took), took(m.Held)))
	p.line("store", cmp.Or(m.Store, "unknown"))
	p.line("size", fmt.Sprintf("%s, stored in %s", sized(one.Bytes), sized(one.Stored)))
	p.line("protected", protection(one))
	var by []string
	for name, version := range m.Tools {
		by = append(by, name+" "+version)
	}
	slices.Sort(by)
	p.line("made by", strings.Join(by, ", "))
	parts := table{whole: true, columns: []column{
		{title: "PART"},
		{title: "FORMAT", spare: 4},
		{title: "SIZE", right: true, spare: 1},
		{title: "STORED", right: true, spare: 2},
		{title: "RECORDS", right: true},
		{title: "FILES", right: true, spare: 3},
	}}
	held := table{whole: true, columns: []column{
		{title: "CATEGORY", shrink: true},
		{title: "NAMESPACE", shrink: true},
		{title: "RECORDS", right: true},
	}}
	for _, part := range m.Parts {
		records := int64(0)
		for _, r := range part.Records {
			records += r.Records
			held.add(r.Category, r.Namespace, fmt.Sprint(r.Records))
		}
		parts.add(part.Name, part.Format, sized(part.Plain.Bytes), sized(part.Stored.Bytes), fmt.Sprint(records), fmt.Sprint(part.Rows["files"]))
	}
	_, _ = p.WriteString("\n")
	if _, err := a.out.Write(p.Bytes()); err != nil {
		return err
	}
	if err := a.printTable(parts); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	return a.printTable(held)
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
	maxAge(c, &age, newestVerified)
	return a.backupFlags(c, "print JSON")
}

const newestVerified = "the newest verified backup"

func maxAge(c *cobra.Command, age *string, what string) {
	c.Flags().StringVar(age, "max-age", "", "`duration` that "+what+" may be old, such as 26h")
}

// findAge answers what is wrong with the age of a backup, which is nil where there
// is none.
func findAge(what string, e *backup.Entry, limit time.Duration) []tiers.Finding {
	const subject = "backup: age"
	if e == nil {
		return []tiers.Finding{{Subject: subject, Message: "there is no verified backup", Hint: "make one with sagestore backup create"}}
	}
	age := tiers.SystemClock().Now().Sub(e.Manifest.Created)
	switch {
	case age < -backup.DefaultTolerance:
		return []tiers.Finding{{
			Subject: subject, Message: fmt.Sprintf("backup %s was made %s in the future: the clock was wrong then, or is now", e.ID, took(-age)),
			Hint: "see that the clock is right, and make a backup with sagestore backup create",
		}}
	case age > limit:
		return []tiers.Finding{{
			Subject: subject, Message: fmt.Sprintf("%s is %s old, and %s are allowed", what, took(age), took(limit)),
			Hint: "see the log of what makes backups, and make one with sagestore backup create",
		}}
	}
	return nil
}

// refuseAge says on standard error what is wrong with the age of a backup.
func (a *app) refuseAge(what string, e *backup.Entry, limit time.Duration) error {
	all := findAge(what, e, limit)
	for _, f := range all {
		_, _ = fmt.Fprintf(a.err, "sagestore: %s\nhint: %s\n", f.Message, f.Hint)
	}
	if len(all) > 0 {
		return silent(exitFailed)
	}
	return nil
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
	Due      time.Time       `json:"due"`           // the run that is due, or was and is overdue
	Next     time.Time       `json:"next,omitzero"` // when it begins, if something is there that makes it by itself
	Watched  bool            `json:"watched"`
	UnderWay string          `json:"under_way,omitempty"`
	Latest   *backupEntry    `json:"latest"`
	AgeNS    time.Duration   `json:"age_ns,omitempty"`
	Backups  int             `json:"backups"`
	Verified int             `json:"verified"`
	Stored   int64           `json:"stored"`
	Findings []tiers.Finding `json:"findings"`
}

func (a *app) reportStatus(s manager.BackupStatus, limit time.Duration) error {
	h := backupHealth{
		Enabled: s.Enabled, Dest: s.Dest, Schedule: s.Schedule, Due: s.Plan.Run.UTC(), Watched: s.Watched, UnderWay: s.UnderWay, Backups: s.Backups, Verified: s.Verified, Stored: s.Stored,
	}
	if s.Watched {
		h.Next = s.Plan.At.UTC()
	}
	now := tiers.SystemClock().Now()
	if s.Latest != nil {
		h.Latest = new(entryOfBackup(*s.Latest))
		h.AgeNS = max(now.Sub(h.Latest.Created), 0) // the findings tell of the future
	}
	if limit > 0 && (s.Latest != nil || s.Unread == nil) {
		for _, f := range findAge(newestVerified, s.Latest, limit) {
			if !slices.ContainsFunc(s.Findings, func(other tiers.Finding) bool { return !other.OK && other.Subject == f.Subject }) {
				s.Findings = append(s.Findings, f)
			}
		}
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
	there := fmt.Sprintf("%s, %d verified, %s", many(s.Backups, "backup"), s.Verified, sized(s.Stored))
	if s.Unread != nil {
		there = "which can't be read"
	}
	if _, err := fmt.Fprintf(a.out, "destination: %s, %s\nschedule: %s\n", s.Dest, there, s.Schedule); err != nil {
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
	switch {
	case s.Latest == nil && s.Unread != nil && !s.State.LastGood.IsZero():
		last = "last good: a run that ended at " + instant(s.State.LastGood) + "; the destination can't be read"
	case s.Latest == nil && s.Unread != nil:
		last = "last good: not known, since the destination can't be read"
	case s.Latest != nil:
		m := &s.Latest.Manifest
		ago := "which is in the future"
		if age := tiers.SystemClock().Now().Sub(m.Created); age >= 0 {
			ago = took(age) + " ago"
		}
		last = fmt.Sprintf("last good: %s, %s, took %s", instant(m.Created), ago, took(m.Took))
	}
	next := nextLine(s, tiers.SystemClock().Now())
	if s.UnderWay != "" {
		next = "under way: " + s.UnderWay + "\n" + next
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", last, next)
	return err
}
