package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/sagestore/sagestore/internal/aside"
	"github.com/sagestore/sagestore/tiers"
)

// tidyTime bounds the removal of what a failed run has written.
const tidyTime = time.Minute

// Create makes a backup, opens again what it has written, and publishes it when all
// of it is sound; the report says what was looked at. It closes the source in any
// case. When it fails or its context ends, nothing is published and what was written
// is removed; what a killed run left is removed by a later one.
//
// It computes on threads that let those of the callers of the store go first.
//
// An error after the publishing, when only the mark of verification could not be
// written, comes with the manifest.
func (r *Repo) Create(ctx context.Context, s Source) (m Manifest, report Report, err error) {
	if err := s.check(); err != nil {
		return Manifest{}, Report{}, fail("create backup", "", errors.Join(err, s.close()))
	}
	c := &creation{r: r, s: s, begun: r.o.Clock.Now(), to: r.recipients, ids: r.identities}
	if !s.Began.IsZero() && s.Began.Before(c.begun) {
		c.begun = s.Began
	}
	err = aside.Do(func() (err error) { m, report, err = c.run(ctx); return err })
	return m, report, fail("create backup", c.m.ID, errors.Join(err, s.close()))
}

// creation is one run of Create.
type creation struct {
	r         *Repo
	s         Source
	begun     time.Time
	m         Manifest
	to        []age.Recipient
	ids       []age.Identity
	published bool
}

func (c *creation) run(ctx context.Context) (_ Manifest, report Report, err error) {
	r := c.r
	if err := r.checkIdentities(); err != nil {
		return Manifest{}, Report{}, err
	}
	if err := r.sweep(ctx); err != nil {
		return Manifest{}, Report{}, fmt.Errorf("remove what earlier runs left: %w", err)
	}
	all, err := r.entries(ctx)
	if err != nil {
		return Manifest{}, Report{}, err
	}
	n, err := c.need(ctx, all)
	if err == nil {
		err = r.checkRoom(n)
	}
	if err != nil {
		return Manifest{}, Report{}, err
	}
	last := lastNumber(all)
	c.m = Manifest{
		Format: formatNow, ID: newID(c.begun), Number: last + 1, Created: tiers.Micro(c.begun),
		Store: c.s.Store, Tools: maps.Clone(c.s.Tools),
	}
	if len(c.to) > 0 {
		// The private keys are kept elsewhere, as they should be. One that dies with
		// this run lets it open what it has written.
		own, err := age.GenerateX25519Identity()
		if err != nil {
			return Manifest{}, Report{}, err
		}
		c.to, c.ids = append(slices.Clone(c.to), own.Recipient()), []age.Identity{own}
	}
	defer func() {
		if err != nil && !c.published {
			err = errors.Join(err, c.forget(context.WithoutCancel(ctx)))
		}
	}()
	for _, p := range c.s.Parts {
		if err := c.write(ctx, p); err != nil {
			return Manifest{}, Report{}, part(p.Name, err)
		}
	}
	c.m.Took = max(r.o.Clock.Now().Sub(c.begun), c.m.Held) // who waited did so meanwhile
	v := verification{r: r, m: &c.m, ids: c.ids, tell: c.s.Progress}
	if report, err = v.run(ctx); err != nil {
		return Manifest{}, report, fmt.Errorf("verify what was written: %w", err)
	}
	if c.s.RefuseEmpty && c.m.Empty() {
		return Manifest{}, report, tiers.Hint(ErrEmpty, "see that it is the store that is meant; if it is, `sagestore backup create --allow-empty`")
	}
	for i := range c.m.Parts {
		if p := &c.m.Parts[i]; len(v.damaged[p.Name]) > 0 {
			p.Damaged = c.noted(v.damaged[p.Name])
		}
	}
	sealed, err := c.m.seal(r.o.Key)
	if err != nil {
		return Manifest{}, report, err
	}
	report.Authentic = len(r.o.Key) > 0
	if err := r.at("publish"); err != nil {
		return Manifest{}, report, err
	}
	if err := r.putBytes(ctx, c.m.ID+"/"+manifestObject, sealed); err != nil {
		return Manifest{}, report, fmt.Errorf("publish: %w", err)
	}
	if err := r.complete(ctx, &c.m); errors.Is(err, tiers.ErrCorrupt) {
		return Manifest{}, report, fmt.Errorf("look at what is there: %w", err)
	}
	c.published = true
	if err := c.whole(ctx); err != nil {
		return c.m, report, err
	}
	if err := r.at("mark"); err != nil {
		return c.m, report, err
	}
	if err := r.mark(ctx, &c.m, report, time.Time{}); err != nil {
		return c.m, report, err
	}
	return c.m, report, c.whole(ctx)
}

// whole looks once more at what is there. Where a disk was taken away meanwhile, the
// last objects may be alone in an empty directory that has its name.
func (c *creation) whole(ctx context.Context) error {
	if _, _, err := c.r.manifest(ctx, c.m.ID); err != nil {
		return fmt.Errorf("read the manifest again: %w", err)
	}
	return c.r.complete(ctx, &c.m)
}

// write writes a part and notes what it is.
func (c *creation) write(ctx context.Context, p Part) error {
	if err := c.r.at("write " + p.Name); err != nil {
		return err
	}
	before, err := p.Frozen.Content(ctx, FactEpoch)
	if err != nil {
		return err
	}
	done := PartInfo{Name: p.Name, Format: before.Format, Path: p.Path, Encoding: []string{encodingZstd}}
	done.Object = p.Name + "." + before.Format + ".zst"
	if done.isTree() {
		done.Object = p.Name + "." + tiers.FormatTar + ".zst"
	}
	if len(c.to) > 0 {
		done.Encoding = append(done.Encoding, encodingAge)
		done.Object += ".age"
	}
	send := c.stream
	if _, local := c.r.bucket.(*dirBucket); !local {
		send = c.stage // a slow upload must not keep the store frozen
	}
	moved := progress(c.s.Progress, "copy", p.Name, before.Size)
	var after tiers.Content
	err = send(ctx, c.m.ID+"/"+done.Object, func(w io.Writer) (err error) {
		done.Plain, done.Stored, err = encode(w, c.to, moved, func(w io.Writer) error { return p.Frozen.Copy(ctx, w) })
		if err == nil {
			after, err = p.Frozen.Content(ctx, FactEpoch) // a tree is counted while it is copied
		}
		return errors.Join(err, p.Frozen.Close())
	})
	if err != nil {
		return err
	}
	done.Schema, done.Sequence, done.Version, done.Rows = after.Schema, after.Sequence, after.Version, after.Rows
	done.Records = recordCounts(after.Records)
	done.Edited, done.LeftOut, done.Damaged = c.noted(after.Edited), c.noted(after.LeftOut), c.noted(after.Damaged)
	c.m.Held = max(c.m.Held, after.Held)
	if e := after.Facts[FactEpoch]; e != "" && c.m.Epoch == "" {
		c.m.Epoch = e
	}
	c.m.Parts = append(c.m.Parts, done)
	return nil
}

// noted tells of files. Their names, which keys are made of, are for nobody to read in
// a backup that is encrypted.
func (c *creation) noted(names []string) *Noted {
	if len(names) == 0 {
		return nil
	}
	n := &Noted{Files: int64(len(names))}
	if len(c.to) == 0 {
		n.Names = names[:min(len(names), notedNames)]
	}
	return n
}

func recordCounts(spaces []tiers.SpaceCount) []RecordCount {
	counts := []RecordCount{}
	for _, s := range spaces {
		counts = append(counts, RecordCount{Namespace: s.Namespace, Category: s.Category, Records: s.Records})
	}
	return counts
}

// stream puts an object while fill writes it.
func (c *creation) stream(ctx context.Context, name string, fill func(w io.Writer) error) error {
	pr, pw := io.Pipe()
	filled := make(chan error, 1)
	aside.Go(func() {
		err := fill(pw)
		_ = pw.CloseWithError(err) // never fails
		filled <- err
	})
	putErr := c.r.bucket.Put(ctx, name, pr)
	_ = pr.CloseWithError(errors.Join(errors.New("the bucket stopped reading"), putErr)) // never fails
	if err := <-filled; err != nil && (putErr == nil || !errors.Is(err, putErr)) {
		return err
	}
	return putErr
}

// stage writes an object to a file first.
func (c *creation) stage(ctx context.Context, name string, fill func(w io.Writer) error) (err error) {
	dir, remove, err := c.r.temp()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	f, err := os.OpenFile(filepath.Join(dir, "part"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600) //nolint:gosec // in a directory of our own
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := fill(f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return c.r.bucket.Put(ctx, name, f)
}

// forget removes what a run that failed has written.
func (c *creation) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	return c.r.remove(ctx, c.m.ID)
}
