package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/internal/aside"
	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/tiers"
)

// Report says what a verification has looked at.
type Report struct {
	ID        string
	Parts     int
	Bytes     int64 // that were unpacked
	Records   int64 // that were counted
	Decoded   int64 // that were decoded; of each category one at least
	Files     int64
	Damaged   int64 // records of databases that can't be read, as the store had them; at least so many unless it is rehearsed
	Rehearsed bool
	Authentic bool // the signature was checked
	Took      time.Duration
	Warnings  []string
}

// Verify looks at all of a backup: that nothing is missing and nothing is there that
// should not be, every hash, that it can be decrypted and unpacked within limits, the
// integrity of databases, their references and counts, and that some record of each
// category can be decoded. With rehearse it restores to a temporary place, compares
// that with the backup, and decodes every record.
//
// A backup that is sound is marked as verified. One that is damaged, which is
// tiers.ErrCorrupt and names the part, loses that mark, and what was found stays beside
// it until a verification finds it whole, see Entry.Damaged. One that was rehearsed
// before stays marked so without rehearse as well. That an earlier mark can't
// be used is a warning. id may be [Latest].
func (r *Repo) Verify(ctx context.Context, id string, rehearse bool) (Report, error) {
	e, err := r.Show(ctx, id)
	if err != nil {
		return Report{}, err
	}
	report, err := r.verify(ctx, e, rehearse)
	if errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, errNothingRead) {
		// With this mark instead of the other the backup does not count any more.
		if also := r.found(ctx, e.ID, err); also != nil {
			err = errors.Join(err, also)
		}
		err = hintDamaged(err)
	}
	return report, fail("verify backup", e.ID, err)
}

// errNothingRead is for a backup of which all hashes are right: keys that are not those
// of the store look like that as well, so an earlier verdict stands.
var errNothingRead = fmt.Errorf("%w: not one of the records can be read", tiers.ErrCorrupt)

func (r *Repo) verify(ctx context.Context, e Entry, rehearse bool) (Report, error) {
	if e.Err != nil {
		return Report{ID: e.ID}, e.Err
	}
	if err := r.complete(ctx, &e.Manifest); err != nil {
		return Report{ID: e.ID}, err
	}
	v := verification{r: r, m: &e.Manifest, ids: r.identities, rehearse: rehearse, tell: r.tell}
	var report Report
	err := aside.Do(func() (err error) { report, err = v.run(ctx); return err })
	report.Authentic = e.Authentic
	if err != nil {
		return report, err
	}
	if e.Note != nil {
		report.Warnings = append(report.Warnings, "what the last verification noted could not be used, and is written anew: "+oneline.Of(e.Note.Error()))
	}
	if err := r.mark(ctx, &e.Manifest, report, e.Rehearsed); err != nil || e.Damaged == "" {
		return report, err
	}
	return report, r.bucket.Delete(ctx, e.ID+"/"+damagedObject)
}

// complete compares the objects of a backup with its manifest.
func (r *Repo) complete(ctx context.Context, m *Manifest) error {
	objects, err := r.objects(ctx, m.ID+"/")
	if err != nil {
		return err
	}
	missing := map[string]string{}
	for _, p := range m.Parts {
		missing[p.Object] = p.Name
	}
	for object := range objects[m.ID] {
		if _, ok := missing[object]; !ok && !isOwn(object) {
			return fmt.Errorf("%w: object %.80q is no part of it", tiers.ErrCorrupt, object)
		}
		delete(missing, object)
	}
	for object, name := range missing {
		return part(name, fmt.Errorf("%w: object %.80q is missing", tiers.ErrCorrupt, object))
	}
	return nil
}

// verification is one run over the parts of a manifest.
type verification struct {
	r        *Repo
	m        *Manifest
	ids      []age.Identity
	rehearse bool
	tell     func(Progress)
	report   Report
	damaged  map[string][]string // records that can't be read, by part; as many of them as were looked at
}

func (v *verification) run(ctx context.Context) (_ Report, err error) {
	begun := v.r.o.Clock.Now()
	v.report = Report{ID: v.m.ID}
	var unpacked int64
	for _, p := range v.m.Parts {
		if p.isStore() || v.rehearse {
			unpacked = max(unpacked, p.Plain.Bytes) // one at a time
		}
	}
	if err := v.r.checkRoom(needs{v.r.tempDir(): unpacked}); err != nil {
		return v.report, err
	}
	if ahead := v.m.Created.Sub(begun); ahead > DefaultTolerance {
		v.report.Warnings = append(v.report.Warnings, fmt.Sprintf("it was made %v in the future: the clock was wrong then, or is now", ahead.Round(time.Minute)))
	}
	dir, remove, err := v.r.temp()
	if err != nil {
		return v.report, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for i := range v.m.Parts {
		p := &v.m.Parts[i]
		if err := part(p.Name, v.part(ctx, p, filepath.Join(dir, p.Name))); err != nil {
			return v.report, err
		}
		v.report.Parts++
		v.report.Bytes += p.Plain.Bytes
	}
	if v.report.Damaged > 0 && v.report.Decoded == 0 {
		return v.report, tiers.Hint(errNothingRead, "see that encryption.keys, and the codecs of the program, are those of the store")
	}
	v.report.Rehearsed = v.rehearse
	v.report.Took = v.r.o.Clock.Now().Sub(begun)
	return v.report, nil
}

func (v *verification) part(ctx context.Context, p *PartInfo, to string) (err error) {
	moved := progress(v.tell, "verify", p.Name, p.Plain.Bytes)
	if p.isStore() {
		if _, err := v.r.copies(p.Format); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, removeIfThere(to)) }() // one at a time
		if err := v.r.unpack(ctx, v.m.ID, p, v.ids, to, false, moved); err != nil {
			return err
		}
		if p.isTree() && v.rehearse {
			if err := sameTree(ctx, p, to); err != nil {
				return err
			}
		}
		return v.copy(ctx, p, to)
	}
	o, err := openPart(ctx, v.r.bucket, v.m.ID, p, v.ids, moved)
	if err != nil {
		return missing(err)
	}
	sums, err := archive.Scan(ctx, o, limitsOf(p), func(f archive.File, body io.Reader) error {
		if v.r.o.DecodeFile == nil {
			return nil
		}
		if err := v.r.o.DecodeFile(ctx, f.Name, body); err != nil {
			return fmt.Errorf("%w: %s can't be decoded: %w", tiers.ErrCorrupt, f.Name, err)
		}
		return nil
	})
	if err := o.finish(ctx, err); err != nil {
		return err
	}
	v.report.Files += sums.Files
	if err := sameRows(p.Rows, treeRows(sums)); err != nil {
		return err
	}
	if !v.rehearse {
		return nil
	}
	if err := v.r.unpack(ctx, v.m.ID, p, v.ids, to, false, nil); err != nil {
		return err
	}
	return sameTree(ctx, p, to)
}

// warn tells what the manifest notes of a tree.
func (v *verification) warn(p *PartInfo) {
	for _, w := range []struct {
		n    *Noted
		what string
	}{
		{p.Edited, "edited by hand while they were copied, and copied as found"},
		{p.LeftOut, "left out, since they are no part of the store"},
		{p.Damaged, "damaged when they were copied"},
	} {
		if w.n == nil {
			continue
		}
		such := ""
		if len(w.n.Names) > 0 {
			such = fmt.Sprintf(", such as %q", w.n.Names[0])
		}
		v.report.Warnings = append(v.report.Warnings, fmt.Sprintf("part %s: %d files were %s%s", p.Name, w.n.Files, w.what, such))
	}
}

// missing makes damage of a part that is not there.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, tiers.ErrCorrupt) {
		return fmt.Errorf("%w: %s", tiers.ErrCorrupt, err.Error())
	}
	return err
}

func removeIfThere(path string) error { return os.RemoveAll(path) } //nolint:gosec // a place of ours

// limitsOf bound an archive by what the manifest says of it.
func limitsOf(p *PartInfo) archive.Limits {
	return archive.Limits{Files: max(p.Rows["files"], 0), Bytes: max(p.Rows["bytes"], 0)}
}

// copy checks the copy of a store, and that it holds what the manifest says.
func (v *verification) copy(ctx context.Context, p *PartInfo, path string) (err error) {
	copies, err := v.r.copies(p.Format)
	if err != nil {
		return err
	}
	c, err := copies.OpenCopy(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return aside.Do(func() error { return c.Check(ctx) }) })
	g.Go(func() error { return aside.Do(func() error { return v.contents(ctx, p, c) }) })
	return g.Wait()
}

// contents compares counts, and decodes.
func (v *verification) contents(ctx context.Context, p *PartInfo, c tiers.Copy) error {
	got, err := c.Content(ctx)
	if err != nil {
		return err
	}
	if err := sameContent(p, got); err != nil {
		return err
	}
	if p.isTree() {
		v.report.Files += got.Rows["files"]
		v.warn(p)
	}
	for _, n := range got.Records {
		v.report.Records += n.Records
		if err := v.decode(ctx, c, p.Name, n.Space, got.Rows["damaged"] > 0); err != nil {
			return err
		}
	}
	if names := v.damaged[p.Name]; len(names) > 0 {
		v.report.Warnings = append(v.report.Warnings, fmt.Sprintf("part %s: %d records can't be read, and were copied as they are, such as %q", p.Name, len(names), names[0]))
	}
	return nil
}

// decode decodes a record of the space, or all of them in a rehearsal and where one
// can't be read. The bytes of the copy are those that were written, so a record that
// is corrupt was so in the store, whose other records need a backup all the more: it is
// counted and passed over. With listed, the manifest counts those that the copy itself
// can't read. A codec or a key that is not here is another matter, and an error.
func (v *verification) decode(ctx context.Context, c tiers.Copy, part string, s tiers.Space, listed bool) error {
	if v.r.o.Decode == nil {
		return tiers.Hint(fmt.Errorf("%w: nothing here decodes the records of %s", tiers.ErrUnsupported, s.Category),
			"set Decode in the options of the repository, with the codecs and keys of the store")
	}
	all := v.rehearse
	for rec, err := range c.Records(ctx, s) {
		if err != nil && listed && rec.Name != "" && ctx.Err() == nil {
			continue
		}
		if err != nil && rec.Name == "" {
			return err
		}
		if err == nil {
			if err = v.r.o.Decode(ctx, rec); err != nil {
				err = tiers.Fail("decode", "", rec.Key, err)
			}
		}
		switch {
		case err == nil:
			v.report.Decoded++
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, tiers.ErrCorrupt):
			return err
		default:
			v.spoiled(part, rec.Key)
			all = true
		}
		if !all {
			break
		}
	}
	return nil
}

// spoiled counts a record that can't be read.
func (v *verification) spoiled(part string, k tiers.Key) {
	v.report.Damaged++
	if v.damaged == nil {
		v.damaged = map[string][]string{}
	}
	v.damaged[part] = append(v.damaged[part], path.Join(k.Namespace, k.Category, k.Name))
}

// sameTree makes the archive of a tree again: it has to be the same bytes.
func sameTree(ctx context.Context, p *PartInfo, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	m := newMeter(nil)
	_, err = archive.Write(ctx, m, archive.Files(root, nil))
	sum := m.digest()
	if err := errors.Join(err, root.Close()); err != nil {
		return err
	}
	if sum != p.Plain {
		return fmt.Errorf("%w: what was restored is not what was backed up", tiers.ErrCorrupt)
	}
	return nil
}

// unpack writes what a part was made of to a path where nothing is, durably if that is
// wanted. What it has written stays when it fails.
func (r *Repo) unpack(ctx context.Context, id string, p *PartInfo, ids []age.Identity, to string, durable bool, moved func(int64)) (err error) {
	o, err := openPart(ctx, r.bucket, id, p, ids, moved)
	if err != nil {
		return missing(err)
	}
	if p.isTree() {
		return o.finish(ctx, unpackTree(ctx, o, to, limitsOf(p), durable))
	}
	return o.finish(ctx, unpackFile(o, to, durable))
}

func unpackTree(ctx context.Context, o *opened, to string, limits archive.Limits, durable bool) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return here(err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return here(err)
	}
	extract := archive.Unpack
	if durable {
		extract = archive.Extract
	}
	_, err = extract(ctx, o, root, limits)
	return errors.Join(here(err), root.Close())
}

func unpackFile(o *opened, to string, durable bool) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in a place that was made for it
	if err != nil {
		return here(err)
	}
	if durable {
		err = writeSteadily(f, o)
	} else {
		_, err = io.CopyBuffer(struct{ io.Writer }{f}, o, make([]byte, steadyRead))
	}
	return errors.Join(here(err), f.Close())
}

// here tells errors of the place that is written to from damage of the backup.
func here(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(err, tiers.ErrCorrupt) {
		return fmt.Errorf("%w: %w", errHere, pe)
	}
	return err
}

// OpenCopy unpacks the copy of a store into a temporary place and opens it, such as to
// read records out of it. Closing it removes it. id may be [Latest]. It is checked as
// [Repo.Verify] would, but for decoding.
func (r *Repo) OpenCopy(ctx context.Context, id, name string) (_ tiers.Copy, err error) {
	e, err := r.Show(ctx, id)
	if err == nil {
		err = e.Err
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		r.noteDamage(ctx, e.ID, err)
		err = fail("open backup", e.ID, hintDamaged(err))
	}()
	i := slices.IndexFunc(e.Manifest.Parts, func(p PartInfo) bool { return p.Name == name })
	if i < 0 || !e.Manifest.Parts[i].isStore() {
		var names []string
		for _, p := range e.Manifest.Parts {
			names = append(names, p.Name)
		}
		return nil, fmt.Errorf("store %.40q in parts %s: %w", name, strings.Join(names, ", "), tiers.ErrNotFound)
	}
	p := &e.Manifest.Parts[i]
	copies, err := r.copies(p.Format)
	if err != nil {
		return nil, err
	}
	if err := r.Sweep(); err != nil {
		return nil, err
	}
	dir, remove, err := r.temp()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "copy")
	var c tiers.Copy
	if err = r.unpack(ctx, e.ID, p, r.identities, path, false, nil); err == nil {
		c, err = copies.OpenCopy(ctx, path)
	}
	if err != nil {
		return nil, part(name, errors.Join(err, remove()))
	}
	err = c.Check(ctx)
	var got tiers.Content
	if err == nil {
		got, err = c.Content(ctx)
	}
	if err == nil {
		err = sameContent(p, got)
	}
	if err != nil {
		return nil, part(name, errors.Join(err, c.Close(), remove()))
	}
	return &lentCopy{Copy: c, remove: remove}, nil
}

// lentCopy removes its file when it is closed.
type lentCopy struct {
	tiers.Copy
	remove func() error
}

// Close implements tiers.Copy.
func (l *lentCopy) Close() error { return errors.Join(l.Copy.Close(), l.remove()) }
