package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// What to do about a backup that can't be used.
const (
	unsignedHint = "whoever can write to the destination may have taken the signature away; to use it all the same, leave signing_key and signing_keys_old out of the backup block"
	otherKeyHint = "name the key that signed it as backup.signing_key, or below backup.signing_keys_old"
	bytesHint    = "copy this one again from where it is whole, or restore an older one, if there is one, by its id or with --at; `sagestore backup list` shows the others"
	damagedHint  = "copy it again from where it is whole, then `sagestore backup verify %s`; `sagestore backup list` shows the others"
	unmarkedHint = "`sagestore backup verify %s` looks at the newest of them, and it counts once it proves sound"
	noneHint     = "see that backup.dest, or --destination, is where they are; `sagestore backup create` makes one"
	listHint     = "`sagestore backup list` shows those that are there"
)

// Latest answers the newest verified backup, or tiers.ErrNotFound, which says why none of
// those that are there counts. Where there are backups of several stores it is
// tiers.ErrConflict: [Repo.Choose] asks for that of one.
func (r *Repo) Latest(ctx context.Context) (Entry, error) { return r.Choose(ctx, Choice{}) }

// At answers the newest verified backup that is not younger than t, as [Repo.Latest]
// does; tiers.ErrNotFound names the oldest one or says why none counts.
func (r *Repo) At(ctx context.Context, t time.Time) (Entry, error) {
	return r.Choose(ctx, Choice{Until: t})
}

// counts tells a backup that can be restored as it is.
func (e *Entry) counts() bool { return e.Err == nil && e.Damaged == "" && !e.Verified.IsZero() }

func (e *Entry) after(t time.Time) bool { return !t.IsZero() && e.Manifest.Created.After(t) }

// noneOf says why none of the backups is the newest verified one of that time or before.
// What cures it with the least work is the hint.
func noneOf(all []Entry, until time.Time) error {
	what := "verified backup"
	if !until.IsZero() {
		what += " of " + until.UTC().Format(time.RFC3339) + " or before"
	}
	if len(all) == 0 {
		return tiers.Hint(fmt.Errorf("%w: there is no backup at all", tiers.ErrNotFound), noneHint)
	}
	early := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return e.after(until) })
	if len(early) == 0 {
		return noneSoEarly(all, what)
	}
	unmarked := slices.DeleteFunc(slices.Clone(early), func(e Entry) bool { return e.Err != nil || e.Damaged != "" })
	if n := len(unmarked); n > 0 {
		return tiers.Hint(fmt.Errorf("%w: there is no %s, and %d %s not verified", tiers.ErrNotFound, what, n, isOrAre(n)),
			fmt.Sprintf(unmarkedHint, unmarked[0].ID))
	}
	newest := &early[0] // the others are told by a list
	for i := range early {
		if errors.Is(early[i].Err, ErrKey) { // a key may be found
			newest = &early[i]
			break
		}
	}
	n := len(early)
	if newest.Err == nil {
		return tiers.Hint(fmt.Errorf("%w: there is no %s, and %d can't be used: %s was found damaged: %s", tiers.ErrNotFound, what, n, newest.ID, newest.Damaged), fmt.Sprintf(damagedHint, newest.ID))
	}
	err := fmt.Errorf("%w: there is no %s, and %d can't be used: %s: %w", tiers.ErrNotFound, what, n, newest.ID, newest.Err)
	if e, ok := errors.AsType[*tiers.Error](newest.Err); ok && e.Hint != "" {
		return err // which knows what to do
	}
	return tiers.Hint(err, fmt.Sprintf(damagedHint, newest.ID))
}

// noneSoEarly says which is the oldest backup, where all are younger than what was
// asked for.
func noneSoEarly(all []Entry, what string) error {
	byAge := func(a, b Entry) int { return a.Manifest.Created.Compare(b.Manifest.Created) }
	oldest := slices.MinFunc(all, byAge)
	kind := "one that is there"
	if good := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return !e.counts() }); len(good) > 0 {
		oldest, kind = slices.MinFunc(good, byAge), "verified one"
	}
	at := oldest.Manifest.Created.UTC().Format(time.RFC3339)
	return tiers.Hint(fmt.Errorf("%w: there is no %s: the oldest %s is %s of %s", tiers.ErrNotFound, what, kind, oldest.ID, at),
		fmt.Sprintf("name it by its id, or with --at %s; `sagestore backup list` shows all", at))
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// hintDamaged says what to do about a backup that was found damaged, where the error does
// not know better.
func hintDamaged(err error) error {
	if !errors.Is(err, tiers.ErrCorrupt) {
		return err
	}
	for e, ok := errors.AsType[*tiers.Error](err); ok; e, ok = errors.AsType[*tiers.Error](e.Err) {
		if e.Hint != "" {
			return err
		}
	}
	return tiers.Hint(err, bytesHint)
}

// Show answers a backup by its id, or [Latest].
func (r *Repo) Show(ctx context.Context, id string) (Entry, error) {
	if id == Latest {
		return r.Latest(ctx)
	}
	if !idForm.MatchString(id) {
		return Entry{}, fail("show backup", "", tiers.Hint(fmt.Errorf("%.60q is no id of a backup: %w", id, tiers.ErrNotFound), listHint))
	}
	objects, err := r.objects(ctx, id+"/")
	if err != nil {
		return Entry{}, fail("show backup", id, err)
	}
	e, err := r.entry(ctx, id, objects[id])
	if errors.Is(err, fs.ErrNotExist) {
		err = tiers.Hint(fmt.Errorf("there is no such backup: %w", tiers.ErrNotFound), cmp.Or(unfinished(objects[id]), listHint))
	}
	if err != nil {
		return Entry{}, fail("show backup", id, err)
	}
	return e, nil
}

// unfinished is the hint where a backup has parts and no manifest.
func unfinished(objects map[string]int64) string {
	if len(objects) == 0 {
		return ""
	}
	return "parts of it are there and no " + manifestObject + ": it is under way, or never came to its end; " + listHint
}
