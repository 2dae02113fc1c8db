package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"sync/atomic"

	"gocloud.dev/blob"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

const (
	// partSize is how much of an object is sent at once. A client holds that for each
	// of uploads at most.
	partSize = 8 << 20
	uploads  = 3
	// maxParts is a little less than S3 takes for one object.
	maxParts = 9_000
)

// nameForm is what names of objects look like; see backup.Bucket.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,199})*$`)

// Bucket is a bucket of an object store, or a directory. It is safe for concurrent use.
type Bucket struct {
	inner  *blob.Bucket
	dir    backup.Bucket // of a file URL; inner is nil then
	host   string        // the service's name of the bucket
	prefix string        // of the keys there, which inner adds by itself
	faults faults
	closed atomic.Bool
}

var (
	_ backup.Bucket = (*Bucket)(nil)
	_ backup.Lister = (*Bucket)(nil)
)

// Unwrap answers what to open a repository with: the directory itself for a file URL,
// for which the repository removes what a killed run has left and which it never moves
// in a restore, and b for anything else.
func (b *Bucket) Unwrap() backup.Bucket {
	if b.dir != nil {
		return b.dir
	}
	return b
}

// Put implements backup.Bucket. A reader that is an io.Seeker tells how much there is
// to come; without that an object of S3 ends at 72 GB with tiers.ErrTooLarge.
//
// When the answer of the service is lost, the object may be there or not, which is
// tiers.ErrCommitUnknown; it is whole if it is there.
func (b *Bucket) Put(ctx context.Context, name string, r io.Reader) error {
	if err := b.check(ctx, name); err != nil {
		return fail("put", name, err)
	}
	if b.dir != nil {
		return b.dir.Put(ctx, name, r)
	}
	size, err := partOf(r)
	if err != nil {
		return fail("put", name, err)
	}
	return fail("put", name, b.upload(ctx, name, r, size))
}

func (b *Bucket) upload(ctx context.Context, name string, r io.Reader, part int) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.inner.NewWriter(ctx, name, &blob.WriterOptions{
		ContentType: "application/octet-stream", BufferSize: part, MaxConcurrency: uploads,
	})
	if err != nil {
		return b.faults.read(ctx, err)
	}
	whole := false
	defer func() {
		if whole {
			return
		}
		cancel() // or Close would publish what was written; a panic of the reader comes here, too
		err = errors.Join(err, b.abort(ctx, name, w.Close()))
	}()
	from := &source{ctx: ctx, r: r}
	// The writer's own way of copying takes a MiB for the smallest object.
	_, err = io.Copy(struct{ io.Writer }{w}, from)
	switch {
	case from.err != nil:
		return from.err
	case err != nil:
		return b.faults.read(ctx, err)
	}
	whole = true
	if err = w.Close(); err != nil {
		return errors.Join(b.faults.write(ctx, err), b.abort(ctx, name, err))
	}
	return nil
}

// Get implements backup.Bucket. The context ends the reading, too.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := b.check(ctx, name); err != nil {
		return nil, fail("get", name, err)
	}
	if b.dir != nil {
		return b.dir.Get(ctx, name)
	}
	r, err := b.inner.NewReader(ctx, name, quiet())
	if err != nil {
		return nil, fail("get", name, b.faults.read(ctx, err))
	}
	return &object{ctx: ctx, r: r, faults: b.faults, name: name}, nil
}

// List implements backup.Bucket. The names of an object store come in order.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for o, err := range b.Objects(ctx, prefix) {
			if !yield(o.Name, err) {
				return
			}
		}
	}
}

// Objects implements backup.Lister. It costs no more than List.
func (b *Bucket) Objects(ctx context.Context, prefix string) iter.Seq2[backup.Object, error] {
	if b.dir != nil && !b.closed.Load() {
		return backup.ListerOf(b.dir).Objects(ctx, prefix)
	}
	return func(yield func(backup.Object, error) bool) {
		if err := b.open(ctx); err != nil {
			yield(backup.Object{}, fail("list", prefix, err))
			return
		}
		names := b.inner.List(&blob.ListOptions{Prefix: prefix})
		for {
			o, err := names.Next(ctx)
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(backup.Object{}, fail("list", prefix, b.faults.read(ctx, err)))
				return
			case o.IsDir || o.Key == "" || strings.HasSuffix(o.Key, "/"):
				// What some tools write to show a directory.
			case !yield(backup.Object{Name: o.Key, Size: o.Size}, nil):
				return
			}
		}
	}
}

// Delete implements backup.Bucket.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := b.check(ctx, name); err != nil {
		return fail("delete", name, err)
	}
	if b.dir != nil {
		return b.dir.Delete(ctx, name)
	}
	err := b.faults.write(ctx, b.inner.Delete(ctx, name))
	if errors.Is(err, tiers.ErrNotFound) {
		return nil
	}
	return fail("delete", name, err)
}

// Close ends the use of the bucket, which is tiers.ErrClosed from then on. Closing it
// again is no error.
func (b *Bucket) Close() error {
	if b.closed.Swap(true) || b.inner == nil {
		return nil
	}
	return fail("close", "", b.faults.read(context.Background(), b.inner.Close()))
}

func (b *Bucket) check(ctx context.Context, name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%w: it can't be the name of an object", tiers.ErrKey)
	}
	return b.open(ctx)
}

func (b *Bucket) open(ctx context.Context) error {
	if b.closed.Load() {
		return tiers.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// partOf answers how large the parts of an object are to be, in bytes.
func partOf(r io.Reader) (int, error) {
	s, ok := r.(io.Seeker)
	if !ok {
		return partSize, nil
	}
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return partSize, nil //nolint:nilerr // a pipe has a Seek that fails
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if _, err := s.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	return int(max(partSize, (end-at)/maxParts+1)), nil
}

// source is what is put. It ends with its context and keeps its own error, since a
// client may wrap that into one of its own.
type source struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (n int, err error) {
	if err := s.ctx.Err(); err != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	n, err = s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// object is an open object.
type object struct {
	ctx    context.Context //nolint:containedctx // the reader has it, too
	r      *blob.Reader
	faults faults
	name   string
}

func (o *object) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		err = fail("get", o.name, o.faults.read(o.ctx, err))
	}
	return n, err
}

func (o *object) Close() error {
	return fail("get", o.name, o.faults.read(o.ctx, o.r.Close()))
}
