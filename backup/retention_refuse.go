package backup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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

const smallerHint = "see what is missing; if nothing is, run `sagestore backup prune --accept-smaller`"

// fewRecords is how many records may be gone from one backup to the next without a
// question: of a store with a handful, half of them is soon deleted.
const fewRecords = 10

// shrunk refuses while a verified backup has less than half of the one before, in bytes or
// in records, since a database keeps its size when they are deleted, or nothing of what a
// part held, however little: whoever emptied the store by mistake, or lost a directory,
// needs the older ones, however many nights pass until that is noticed.
func (p Policy) shrunk(all []Kept, now time.Time, refuse func(short, hint string) (string, error)) (short string, err error) {
	accepted := p.Smaller
	if accepted.After(now.Add(p.Tolerance)) { // by a clock that was wrong
		accepted = time.Time{}
	}
	var newer *Kept
	for i := range all {
		b := &all[i]
		switch {
		case !p.counts(*b, now):
			continue
		case newer != nil && newer.Created.After(accepted) && newer.Bytes < b.Bytes-newer.Bytes:
			return refuse(fmt.Sprintf("backup %s has %d bytes, less than half of the %d of %s", newer.ID, newer.Bytes, b.Bytes, b.ID),
				smallerHint)
		case newer != nil && newer.Created.After(accepted) && newer.Records < b.Records-newer.Records && b.Records-newer.Records > fewRecords:
			return refuse(fmt.Sprintf("backup %s has %d records, less than half of the %d of %s", newer.ID, newer.Records, b.Records, b.ID),
				smallerHint)
		case newer != nil && newer.Created.After(accepted) && newer.Records > 0: // an empty one was allowed, see ErrEmpty
			for _, name := range slices.Sorted(maps.Keys(b.Parts)) {
				if n, there := newer.Parts[name]; there && n == 0 && b.Parts[name] > 0 {
					return refuse(fmt.Sprintf("backup %s has no record of the part %s, of which %s has %d", newer.ID, name, b.ID, b.Parts[name]), smallerHint)
				}
			}
		}
		newer = b
	}
	return "", nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
