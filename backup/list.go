package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/tiers"
)

// Entry is a published backup in a list.
type Entry struct {
	ID        string
	Manifest  Manifest  // of a damaged one only what is known
	Verified  time.Time // zero: not verified, or found damaged since
	Rehearsed time.Time // when it was last restored to a temporary place and compared; zero: never
	Authentic bool      // its signature was checked
	Err       error     // why the backup can't be used
	// Damaged is what the last verification found wrong, in words. The backup does not
	// count until another one finds it whole.
	Damaged string
	// Note is why what the last verification noted can't be used, such as that it is
	// damaged itself. That is no damage of the backup, which counts as not verified until
	// a verification notes it anew.
	Note error
}

// List yields the published backups, the newest first. One with a damaged manifest is
// yielded with what is wrong as Err; an error ends the list, which has holes then.
func (r *Repo) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		all, err := r.entries(ctx)
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(Entry{}, fail("list backups", "", err))
		}
	}
}

func (r *Repo) entries(ctx context.Context) ([]Entry, error) {
	objects, err := r.objects(ctx, "")
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, id := range slices.Sorted(maps.Keys(objects)) {
		if _, published := objects[id][manifestObject]; !published {
			if wasPublished(objects[id]) {
				all = append(all, Entry{ID: id, Manifest: Manifest{ID: id, Created: timeOf(id)}, Err: errNoManifest})
			}
			continue
		}
		e, err := r.entry(ctx, id, objects[id])
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, newerFirst)
	return all, nil
}

var errNoManifest = fmt.Errorf("%s: %w: it is missing", manifestObject, tiers.ErrCorrupt)

// wasPublished tells from its marks that a backup was published once, and is not being
// removed: one without a manifest has lost that.
func wasPublished(objects map[string]int64) bool {
	_, verified := objects[verifiedObject]
	_, damaged := objects[damagedObject]
	_, removing := objects[removingObject]
	return (verified || damaged) && !removing
}

// newerFirst orders by number, since a clock may have been wrong.
func newerFirst(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Manifest.Number, a.Manifest.Number), b.Manifest.Created.Compare(a.Manifest.Created), cmp.Compare(b.ID, a.ID))
}

// entry reads a backup's manifest and mark, and looks whether its objects are there
// with the right sizes. What is wrong with them is in the entry; an error is one of the
// bucket.
func (r *Repo) entry(ctx context.Context, id string, objects map[string]int64) (Entry, error) {
	e := Entry{ID: id}
	m, authentic, err := r.manifest(ctx, id)
	switch {
	case err == nil:
		e.Manifest, e.Authentic = m, authentic
	case unusable(err):
		e.Manifest, e.Err = Manifest{ID: id, Created: timeOf(id), Number: m.Number}, err
		return e, nil
	default:
		return Entry{}, err
	}
	e.Err = sizesOf(&m, objects)
	if _, damaged := objects[damagedObject]; damaged {
		found, err := r.get(ctx, id+"/"+damagedObject)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Entry{}, err
		}
		if err == nil {
			e.Damaged = cmp.Or(oneline.Of(string(found)), "it is damaged")
			return e, nil
		}
	}
	if _, marked := objects[verifiedObject]; !marked || unusable(e.Err) {
		return e, nil
	}
	v, err := r.verdict(ctx, &m)
	switch {
	case err == nil:
		e.Verified, e.Rehearsed = v.Verified, v.RehearsedBefore
		if v.Rehearsed {
			e.Rehearsed = v.Verified
		}
	case unusable(err):
		e.Note = err
	case errors.Is(err, fs.ErrNotExist): // taken away meanwhile
	default:
		return Entry{}, err
	}
	return e, nil
}

// sizesOf compares the objects that are there with what a manifest says of them. It is
// damage that costs nothing to find: a part that was cut, or is missing.
func sizesOf(m *Manifest, objects map[string]int64) error {
	for _, p := range m.Parts {
		switch size, there := objects[p.Object]; {
		case !there:
			return part(p.Name, fmt.Errorf("%w: object %.80q is missing", tiers.ErrCorrupt, p.Object))
		case size >= 0 && size != p.Stored.Bytes:
			return part(p.Name, fmt.Errorf("%w: its object has %d bytes, not %d", tiers.ErrCorrupt, size, p.Stored.Bytes))
		}
	}
	return nil
}

// unusable tells that an error is about the backup and not about the way to it.
func unusable(err error) bool {
	return errors.Is(err, tiers.ErrCorrupt) || errors.Is(err, tiers.ErrUnsupported) || errors.Is(err, ErrKey)
}

// manifest reads the manifest of a backup. Of one that can't be used it answers the
// number, as far as that can be read.
func (r *Repo) manifest(ctx context.Context, id string) (Manifest, bool, error) {
	b, err := r.get(ctx, id+"/"+manifestObject)
	if err != nil {
		return Manifest{}, false, err
	}
	m, authentic, err := parseManifest(b, id, r.keys()...)
	if err != nil {
		return Manifest{Number: headOf(b)}, false, fmt.Errorf("%s: %w", manifestObject, err)
	}
	return m, authentic, nil
}

func (r *Repo) verdict(ctx context.Context, m *Manifest) (verdict, error) {
	b, err := r.get(ctx, m.ID+"/"+verifiedObject)
	if err != nil {
		return verdict{}, err
	}
	v, err := parseVerdict(b, m, r.keys()...)
	if err != nil {
		return verdict{}, fmt.Errorf("%s: %w", verifiedObject, err)
	}
	return v, nil
}

// mark notes that a backup was verified. When it was rehearsed before stays known, so that
// verifying it takes nothing away.
func (r *Repo) mark(ctx context.Context, m *Manifest, report Report, rehearsed time.Time) error {
	v := verdict{
		Format: formatNow, ID: m.ID, Manifest: m.Sum, Verified: tiers.Micro(r.o.Clock.Now()),
		Rehearsed: report.Rehearsed, Decoded: report.Decoded,
	}
	if !report.Rehearsed {
		v.RehearsedBefore = rehearsed
	}
	b, err := v.seal(r.o.Key)
	if err != nil {
		return err
	}
	if err := r.putBytes(ctx, m.ID+"/"+verifiedObject, b); err != nil {
		return fmt.Errorf("note that it was verified: %w", err)
	}
	return nil
}

// found notes what a verification found wrong, and takes away that the backup was
// verified.
func (r *Repo) found(ctx context.Context, id string, wrong error) error {
	return errors.Join(
		r.putBytes(ctx, id+"/"+damagedObject, []byte(oneline.Of(tiers.Keyless(wrong))+"\n")),
		r.bucket.Delete(ctx, id+"/"+verifiedObject),
	)
}

// noteDamage notes damage that was found while something was restored. Whoever restores is
// told of it in any case, so that it can't be noted does not matter.
func (r *Repo) noteDamage(ctx context.Context, id string, wrong error) {
	if errors.Is(wrong, tiers.ErrCorrupt) {
		_ = r.found(ctx, id, wrong)
	}
}

func (r *Repo) putBytes(ctx context.Context, name string, b []byte) error {
	return r.bucket.Put(ctx, name, bytes.NewReader(b))
}

// lastNumber answers the highest number of any backup, also of one that can't be used
// here: it may be used elsewhere, or when its key is back.
func lastNumber(all []Entry) (n uint64) {
	for _, e := range all {
		n = max(n, e.Manifest.Number)
	}
	return n
}

// Kept answers what retention needs to know of the backups. A damaged one counts as
// not verified; one whose key is not here, or of a newer version, as one that can't be
// judged.
func (r *Repo) Kept(ctx context.Context) ([]Kept, error) {
	all, err := r.entries(ctx)
	if err != nil {
		return nil, fail("list backups", "", err)
	}
	var kept []Kept
	for _, e := range all {
		kept = append(kept, e.Kept())
	}
	return kept, nil
}

// Kept answers what retention needs to know of the backup, as [Repo.Kept] does.
func (e *Entry) Kept() Kept {
	k := Kept{ID: e.ID, Created: e.Manifest.Created, Verified: e.Verified, Bytes: e.Manifest.Bytes(), Store: e.Manifest.Store}
	k.Parts = make(map[string]int64, len(e.Manifest.Parts))
	for _, p := range e.Manifest.Parts {
		k.Parts[p.Name] = 0
		for _, c := range p.Records {
			k.Records += c.Records
			k.Parts[p.Name] += c.Records
		}
	}
	if e.Err != nil {
		k.Verified = time.Time{}
	}
	for _, err := range []error{e.Err, e.Note} {
		if errors.Is(err, ErrKey) || errors.Is(err, tiers.ErrUnsupported) {
			k.Unjudged = strings.Join(strings.Fields(err.Error()), " ")
			break
		}
	}
	return k
}

// Prune removes the backups that the policy does not want, unless dryRun is set, and
// answers what became of each. A list with holes removes nothing.
func (r *Repo) Prune(ctx context.Context, p Policy, dryRun bool) ([]Decision, error) {
	kept, err := r.Kept(ctx)
	if err != nil {
		return nil, err
	}
	ds, err := Decide(kept, p, r.o.Clock.Now())
	if err != nil || dryRun {
		return ds, err
	}
	for _, d := range slices.Backward(ds) { // the oldest first
		if !d.Keep {
			if err := r.Remove(ctx, d.ID); err != nil {
				return ds, err
			}
		}
	}
	return ds, nil
}

// Remove removes a backup. It is none from its first step on.
func (r *Repo) Remove(ctx context.Context, id string) error {
	if !idForm.MatchString(id) {
		return fail("remove backup", "", fmt.Errorf("%.60q is no id of a backup: %w", id, tiers.ErrNotFound))
	}
	return fail("remove backup", id, r.remove(ctx, id))
}

func (r *Repo) remove(ctx context.Context, id string) error {
	if err := r.at("remove " + id); err != nil {
		return err
	}
	// From then on nobody takes it for one that has lost its manifest.
	if err := r.putBytes(ctx, id+"/"+removingObject, nil); err != nil {
		return err
	}
	if err := r.bucket.Delete(ctx, id+"/"+manifestObject); err != nil {
		return err
	}
	objects, err := r.objects(ctx, id+"/")
	if err != nil {
		return err
	}
	delete(objects[id], removingObject)
	for _, object := range append(slices.Sorted(maps.Keys(objects[id])), removingObject) {
		if err := r.at("delete " + object); err != nil {
			return err
		}
		if err := r.bucket.Delete(ctx, id+"/"+object); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what was never published and is too old, or too far in the future, to
// be under way.
func (r *Repo) sweep(ctx context.Context) error {
	objects, err := r.objects(ctx, "")
	if err != nil {
		return err
	}
	now := r.o.Clock.Now()
	if d, ok := r.bucket.(*dirBucket); ok { // first, since the last of the others takes its directory along
		if err := d.tidy(now.Add(-r.o.Abandoned)); err != nil {
			return err
		}
	}
	for id, names := range objects {
		if _, published := names[manifestObject]; published || wasPublished(names) || now.Sub(timeOf(id)).Abs() < r.o.Abandoned {
			continue
		}
		if err := r.remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
