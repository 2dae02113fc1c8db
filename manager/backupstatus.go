package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// listPatience bounds the look at the backups for a diagnosis.
const listPatience = 10 * time.Second

// BackupStatus is how a store's backups are doing.
type BackupStatus struct {
	Enabled  bool   // programs that have the store open make the nightly backup
	Dest     string // directory, or URL of a bucket
	Schedule string // in words

	Latest   *backup.Entry // the newest verified one, or nil
	Backups  int           // that are there
	Verified int
	Others   int   // of other stores, which are not looked at
	Stored   int64 // bytes of all of them

	// UnderWay names who makes a backup now, as in "process 17 on here since
	// 2026-11-28T03:30:00Z"; "" when nobody does.
	UnderWay string
	// Watched tells whether something that makes backups by itself is there: a program
	// with Enabled, or [Backups.Serve]. One that was killed or is suspended is not.
	Watched bool

	State backup.State // of the schedule
	// Plan is what comes next, after what is under way. Without Watched it is what is
	// due, and nobody is known to make it.
	Plan backup.Plan

	// Unread is why the destination can't be listed, which is a finding as well; nil when
	// it can. Latest and the numbers are of what was listed until then.
	Unread error

	Findings []tiers.Finding // what is wrong, and what deserves a second look
}

// Status looks at the backups and at the state of the schedule.
func (b *Backups) Status(ctx context.Context) (s BackupStatus, err error) {
	plan := b.core.plan.Backup
	s = BackupStatus{Enabled: plan.Enabled, Dest: plan.Dest, Schedule: b.inWords()}
	now := b.core.clock.Now()
	s.State, err = b.State(ctx)
	if errors.Is(err, tiers.ErrCorrupt) {
		s.find(false, "schedule", "the state of the schedule is damaged: "+err.Error(), "the next run replaces it")
	} else if err != nil {
		return s, err
	}
	s.UnderWay = lockedBy(b.core.jobsDir())
	s.Plan = b.planned(s.State, s.UnderWay, now)
	s.Watched = b.watches(s.State, s.UnderWay, now)
	damaged, why := 0, error(nil) // of the newest of them
	all, unread := b.list(ctx)    // what is known without the list is told all the same
	if unread != nil && errors.Is(ctx.Err(), context.Canceled) {
		return s, unread
	}
	own, there, _ := b.identity(ctx)
	apart := there || ofSeveral(all) // else all may be of this store
	for _, e := range all {
		if e.Err == nil && apart && (own == "" || e.Manifest.Store != own) {
			s.Others++
			continue
		}
		s.Backups++
		s.Stored += e.Manifest.Stored()
		switch {
		case e.Err != nil, e.Damaged != "":
			if damaged++; why == nil {
				why = e.Err
			}
		case !e.Verified.IsZero():
			s.Verified++
			if s.Latest == nil {
				s.Latest = &e
			}
		}
	}
	if damaged > 0 && (damaged < s.Backups || why == nil) { // else the cause is said
		s.find(false, "backups", fmt.Sprintf("%d of %d can't be used", damaged, s.Backups), "`sagestore backup list` shows why")
	}
	if s.Others > 0 {
		message := fmt.Sprintf("%d backups there are of other stores", s.Others)
		if s.Others == 1 {
			message = "a backup there is of another store"
		}
		s.find(true, "destination", message, "what is of others is neither counted nor removed; give each store a backup.dest of its own")
	}
	if unread == nil && (own != "" || s.Others == 0) { // else none is known to be of this store
		s.findRefusal(all, b.policy(s.State, own), now)
	}
	b.findGone(ctx, &s)
	b.findRuns(&s)
	b.findUntold(&s)
	if unread != nil {
		s.findUnread(unread)
	} else if s.Latest != nil || damaged < s.Backups || why == nil {
		b.findAge(&s, now)
	} else {
		s.findNoneRead(why)
	}
	b.findWatch(&s, now)
	replaced, err := backup.Replaced(b.core.plan.DataDir)
	if err != nil {
		return s, err
	}
	for _, r := range replaced {
		if len(r.Paths) > 0 {
			s.find(true, "restore", fmt.Sprintf("what backup %s replaced on %s is kept", r.Backup, stamp(r.At)), "when it is not needed any more, remove "+strings.Join(r.Paths, " and "))
		}
	}
	b.findUnpacked(&s)
	if sameDisk(plan.Dest, b.core.plan.DataDir) {
		s.find(true, "destination", plan.Dest+" is on the same disk as the data", "name another disk or a bucket under backup.dest, so that both are not lost at once")
	}
	return s, nil
}

func (s *BackupStatus) find(ok bool, subject, message, hint string) {
	s.Findings = append(s.Findings, tiers.Finding{OK: ok, Subject: "backup: " + subject, Message: message, Hint: hint})
}

// findUnread tells that the destination can't be listed. What its error begins with is
// said by the subject.
func (s *BackupStatus) findUnread(err error) {
	s.Unread = err
	message, hint := err, "see that backup.dest, or --destination, is a directory or a bucket that can be read"
	for e, ok := errors.AsType[*tiers.Error](err); ok; e, ok = errors.AsType[*tiers.Error](e.Err) {
		message, hint = e.Err, cmp.Or(e.Hint, hint)
	}
	s.find(false, "destination", s.Dest+" can't be read: "+message.Error(), hint)
}

// findGone tells that the store is not there, or is another one than that of the backups.
func (b *Backups) findGone(ctx context.Context, s *BackupStatus) {
	if backup.Unfinished(b.core.plan.DataDir) {
		s.find(false, "restore", "one was interrupted after it was decided", "`sagestore doctor`, or whatever opens the store, finishes it")
		return
	}
	if err := b.Existing(); err != nil {
		if errors.Is(err, ErrNoStore) && (s.Backups+s.Others > 0 || !s.State.LastGood.IsZero()) {
			s.find(false, "store", b.places()["database"]+" is not there", "see that data_dir, or --data-dir, and the disk are those that are meant; `sagestore backup restore` brings the store back")
		}
		return
	}
	err := b.inSystem(ctx, func(c *core) error { return c.sameStore(ctx) })
	if errors.Is(err, tiers.ErrConflict) { // other errors are told by the tiers
		message, hint := inParts(err)
		s.find(false, "store", strings.TrimPrefix(message, "conflict: "), hint)
	}
}

// list answers the backups that are there, and why there may be more.
func (b *Backups) list(ctx context.Context) (all []backup.Entry, unread error) {
	for e, err := range b.repo.List(ctx) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// ofSeveral tells that the backups are of several stores.
func ofSeveral(all []backup.Entry) bool {
	first := ""
	for _, e := range all {
		store := e.Manifest.Store
		if first = cmp.Or(first, store); store != "" && store != first {
			return true
		}
	}
	return false
}

// findRefusal tells why backups only become more.
func (s *BackupStatus) findRefusal(all []backup.Entry, p backup.Policy, now time.Time) {
	var kept []backup.Kept
	for _, e := range all {
		kept = append(kept, e.Kept())
	}
	if _, err := backup.Decide(kept, p, now); err != nil {
		message, hint := inParts(err)
		s.find(false, "prune", message, hint)
	}
}

// findNoneRead tells why no backup counts, though there are some.
func (s *BackupStatus) findNoneRead(why error) {
	message, hint := inParts(why)
	text := fmt.Sprintf("there are %d backups, and none of them can be used; the newest: %s", s.Backups, message)
	if s.Backups == 1 {
		text = "there is a backup, and it can't be used: " + message
	}
	s.find(false, "none", text, cmp.Or(hint, "`sagestore backup list` shows why"))
}

// inParts answers what an error says and its hint.
func inParts(err error) (message, hint string) {
	if e, ok := errors.AsType[*tiers.Error](err); ok {
		return e.Err.Error(), e.Hint
	}
	return err.Error(), ""
}

const logHint = "see the log of the program, or run `sagestore backup create`"

// findRuns looks whether the last runs failed.
func (b *Backups) findRuns(s *BackupStatus) {
	if s.State.Tries > 0 && s.UnderWay == "" {
		s.find(false, "runs", fmt.Sprintf("the run of %s failed %d times and is tried again at %s",
			stamp(s.State.Run), s.State.Tries, stamp(s.Plan.At)), logHint)
	}
	hand := s.State.Hand
	if hand.Failures > 0 {
		s.find(false, "runs", fmt.Sprintf("by hand or from a timer %d failed, the last at %s: %s", hand.Failures, stamp(hand.Failed), hand.Cause),
			"mend that, and run `sagestore backup create`")
	}
	if !hand.Began.IsZero() && s.UnderWay == "" {
		s.find(false, "runs", "the one begun at "+stamp(hand.Began)+" by hand or from a timer never ended: its process did before",
			"see the log of what ran it, and run `sagestore backup create`")
	}
}

// findWatch looks whether anything will make the next backup. A run from a timer
// within the time between two runs is proof enough that something does.
func (b *Backups) findWatch(s *BackupStatus, now time.Time) {
	good := s.State.LastGood
	if !s.Enabled || s.Watched || good.IsZero() || s.UnderWay != "" {
		return // where there is none at all, that is said
	}
	last := b.schedule.Last(now)
	between := last.Sub(b.schedule.Last(last.Add(-time.Second)))
	if now.Sub(good) <= between+between/8 { // a timer may be late by a little
		return
	}
	if slices.ContainsFunc(s.Findings, func(f tiers.Finding) bool { return !f.OK && f.Subject == "backup: age" }) {
		return
	}
	seen := "none was ever seen"
	if !s.State.Watched.IsZero() {
		seen = "the last one was seen at " + stamp(s.State.Watched)
	}
	s.find(false, "runner", "nothing that makes backups by itself is there, "+seen+", and the last good one ended at "+stamp(good),
		"start the program or `sagestore backup serve`, or set up a timer, see docs/OPERATIONS.md")
}

// findAge looks whether backups are made as they should be.
func (b *Backups) findAge(s *BackupStatus, now time.Time) {
	const hint = logHint
	last := b.schedule.Last(now)
	before := b.schedule.Last(last.Add(-time.Second)) // one run may be missing: it is made up for
	switch {
	case s.Latest == nil && !s.State.Empty.IsZero():
		s.find(true, "none", "there is no backup: the store was empty at "+stamp(s.State.Empty), "the first one is made of the first record, once it is due; `sagestore backup create --allow-empty` makes one now")
	case s.Latest == nil && !s.Enabled:
		s.find(true, "none", "no backup is made by itself, and there is no verified one", "write backup: {enabled: true} into the configuration, or run `sagestore backup create` every night")
	case s.Latest == nil && s.State.Since.Before(before) && !s.State.Since.IsZero():
		s.find(false, "none", "there is no verified backup, though they are enabled since "+stamp(s.State.Since), hint)
	case s.Latest == nil:
		s.find(true, "none", "there is no verified backup yet", "the first one is due at "+stamp(s.Plan.At)+"; `sagestore backup create` makes one now")
	case s.Latest.Manifest.Created.After(now.Add(backup.DefaultTolerance)):
		s.find(false, "age", fmt.Sprintf("backup %s is of %s, which is in the future: the clock was wrong then, or is now",
			s.Latest.ID, stamp(s.Latest.Manifest.Created)), "see that the clock is right, and make a backup with `sagestore backup create`")
	case s.Enabled && s.Latest.Manifest.Created.Before(before):
		s.find(false, "age", "the newest verified backup is of "+stamp(s.Latest.Manifest.Created)+", and at least one more run was due since", hint)
	case !s.Enabled && s.State.Run.IsZero() && s.Latest.Manifest.Created.Before(before):
		s.find(true, "age", "the newest verified backup is of "+stamp(s.Latest.Manifest.Created)+", and none is made by itself", "see backup.enabled, or run `sagestore backup create` every night")
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// inWords says when backups are made.
func (b *Backups) inWords() string {
	plan := b.core.plan.Backup
	var text string
	switch {
	case plan.Cron != "":
		text = "cron " + plan.Cron
	case plan.Interval == "hourly":
		text = "hourly, on the hour"
	case plan.Interval == "weekly":
		text = "weekly, Sunday at " + plan.At
	default:
		text = "daily at " + plan.At
	}
	text += " (" + b.schedule.Zone().String() + " time)"
	if j := b.schedule.Jitter(); j > 0 {
		text += ", and " + j.String() + " later to spread stores"
	}
	return text
}

// sameDisk tells whether a directory for backups, which may not be there yet, is on
// the file system of the data.
func sameDisk(dest, data string) bool {
	if strings.Contains(dest, "://") {
		return false
	}
	a, okA := deviceOf(existing(dest))
	b, okB := deviceOf(existing(data))
	return okA && okB && a == b
}

// existing answers the nearest directory above a path that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// lastBackups answers when the last good backup ended and when the next is due.
func (c *core) lastBackups(ctx context.Context) (last, next time.Time) {
	last, next, _ = c.backupsInShort(ctx)
	return last, next
}

// backupsInShort answers what went wrong since the last good one, too. It reads one
// small file.
func (c *core) backupsInShort(ctx context.Context) (last, next time.Time, problem string) {
	if c.plan.InMemory {
		return last, next, ""
	}
	b, err := c.ownBackups(ctx)
	if err != nil {
		return last, next, "the backups can't be opened" // the diagnosis says why
	}
	st, err := b.State(ctx)
	if err != nil {
		return last, next, "the state of the schedule can't be read"
	}
	underWay, now := lockedBy(c.jobsDir()), c.clock.Now()
	if c.plan.Backup.Enabled && b.watches(st, underWay, now) {
		next = b.planned(st, underWay, now).At.UTC()
	}
	return st.LastGood, next, c.problemOf(st)
}

// problemOf says in a few words what went wrong, without the causes, which may name
// paths.
func (c *core) problemOf(st backup.State) string {
	switch {
	case st.Hand.Failures > 0:
		return fmt.Sprintf("runs by hand or from a timer failed %d times, the last at %s", st.Hand.Failures, stamp(st.Hand.Failed))
	case st.Tries > 1, st.Tries > 0 && lockedBy(c.jobsDir()) == "": // else the first attempt is under way
		return fmt.Sprintf("the run of %s failed", stamp(st.Run))
	}
	if st.Refusal == "" && st.Untold != (backup.UntoldState{}) {
		return "a notice about a run failed"
	}
	return st.Refusal
}

// diagnoseBackups finds what is wrong with the backups.
func (c *core) diagnoseBackups(ctx context.Context) []tiers.Finding {
	if c.plan.InMemory {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	b, err := c.ownBackups(ctx)
	if err != nil {
		return []tiers.Finding{{Subject: "backup", Message: err.Error(), Hint: "see backup in docs/CONFIG.md"}}
	}
	s, err := b.Status(ctx)
	if err != nil {
		return append(s.Findings, tiers.Finding{Subject: "backup: destination", Message: err.Error(), Hint: "see that " + s.Dest + " can be reached"})
	}
	if s.Latest != nil {
		m := s.Latest.Manifest
		s.Findings = append([]tiers.Finding{{OK: true, Subject: "backup", Message: fmt.Sprintf(
			"the newest verified one, of %d, is of %s and took %s", s.Verified, stamp(m.Created), m.Took.Round(time.Millisecond))}}, s.Findings...)
	}
	return s.Findings
}
