package backup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

// ErrRefused is wrapped by the errors of a prune that could remove what is still
// needed. The backup that came before it is as good as any.
var ErrRefused = errors.New("no backup is removed")

// refusal answers why nothing may be removed, in a few words and as an error.
// The backups are sorted newest first.
func (p Policy) refusal(all []Kept, now time.Time) (short string, err error) {
	refuse := func(short, hint string) (string, error) {
		return short, &tiers.Error{Op: "prune", Hint: hint, Err: fmt.Errorf("%w: %s", ErrRefused, short)}
	}
	if min(p.Last, p.Daily, p.Weekly, p.Monthly) < 0 || min(p.Age, p.Unverified, p.Tolerance) < 0 {
		return refuse("the retention has a number below 0", "write 0 for a rule that is not wanted")
	}
	ids := make(map[string]struct{}, len(all))
	for _, b := range all {
		if _, twice := ids[b.ID]; twice {
			return refuse(fmt.Sprintf("backup %s is listed twice", b.ID), "look for a copy in the destination and move it elsewhere")
		}
		ids[b.ID] = struct{}{}
	}
	if short, hint := p.strange(all); short != "" {
		return short, &tiers.Error{Op: "prune", Hint: hint, Err: fmt.Errorf("%w: %w", ErrRefused, conflict.Errorf("%s", short))}
	}
	if p.Seen.After(now.Add(p.Tolerance)) {
		return refuse(fmt.Sprintf("the clock went backwards: it is %s and has been %s", stamp(now), stamp(p.Seen)),
			"correct the clock; if it is right now, accept it with `sagestore backup prune --accept-clock`")
	}
	acknowledged := !p.Accepted.IsZero() && !p.Accepted.After(now.Add(p.Tolerance))
	if len(all) > 0 && p.future(all[0], now) && !acknowledged {
		return refuse(fmt.Sprintf("the clock went backwards: it is %s and backup %s is of %s", stamp(now), all[0].ID, stamp(all[0].Created)),
			"correct the clock; if it is right now, accept it with `sagestore backup prune --accept-clock`")
	}
	return p.shrunk(all, now, refuse)
}

// strange says why the backups may be of other stores than the one that is meant; "" is
// nothing.
func (p Policy) strange(all []Kept) (short, hint string) {
	stores := make(map[string]struct{})
	for _, b := range all {
		if b.Store != "" {
			stores[b.Store] = struct{}{}
		}
	}
	switch {
	case p.Store != "" || len(stores) == 0:
		return "", ""
	case p.Unknown != "":
		return p.Unknown + ", so none of the backups is known to be its",
			"see that data_dir, or --data-dir, is that of the store that is meant; `sagestore backup create` makes a backup of it, and removes none of another"
	case len(stores) > 1:
		return fmt.Sprintf("there is no store here that would tell whose are meant, and they are of %d stores", len(stores)),
			"see that data_dir, or --data-dir, is that of the store whose backups are meant"
	}
	return "", ""
}

const smallerHint = "see what is missing; if nothing is, run `sagestore backup prune --accept-smaller`"

// fewRecords is how many records may be gone from one backup to the next without a
// question: of a store with a handful, half of them is soon deleted.
const fewRecords = 10

// shrunk refuses while a verified backup has lost much of what the one before it has:
// whoever emptied the store by mistake, or lost a directory, needs the older ones, however
// many nights pass until that is noticed.
func (p Policy) shrunk(all []Kept, now time.Time, refuse func(short, hint string) (string, error)) (short string, err error) {
	accepted := p.Smaller
	if accepted.After(now.Add(p.Tolerance)) { // by a clock that was wrong
		accepted = time.Time{}
	}
	var newer *Kept
	for i := range all {
		b := &all[i]
		if !p.counts(*b, now) {
			continue
		}
		if newer != nil && newer.Created.After(accepted) {
			if lost := newer.lost(b); lost != "" {
				return refuse(fmt.Sprintf("backup %s has %s", newer.ID, lost), smallerHint)
			}
		}
		newer = b
	}
	return "", nil
}

// lost says what the backup lacks of the one before: it has less than half, in bytes or in
// records, since a database keeps its size when they are deleted, or nothing of what a part
// held, however little. "" is nothing.
func (k *Kept) lost(before *Kept) string {
	if k.Bytes < before.Bytes-k.Bytes {
		return fmt.Sprintf("%d bytes, less than half of the %d of %s", k.Bytes, before.Bytes, before.ID)
	}
	if gone := before.Records - k.Records; k.Records < gone && gone > fewRecords {
		return fmt.Sprintf("%d records, less than half of the %d of %s", k.Records, before.Records, before.ID)
	}
	if k.Records == 0 { // that was allowed, see ErrEmpty
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(before.Parts)) {
		if n, there := k.Parts[name]; there && n == 0 && before.Parts[name] > 0 {
			return fmt.Sprintf("no record of the part %s, of which %s has %d", name, before.ID, before.Parts[name])
		}
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
