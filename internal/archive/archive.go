// Package archive keeps a tree of files as one stream that needs no trust.
//
// It is a tar archive that every tar program unpacks, of regular files only. Their
// names are relative and clean and come in the order of [Compare], so that none is
// there twice, in capital letters neither. Sizes and times are kept, owners and
// modes are not: what is unpacked belongs to whoever unpacks it, files with mode
// 0600 and directories with 0700. Directories are not entries of their own, so an
// empty one is not kept.
//
// The same files make the same bytes.
package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/tiers"
)

// File is a file of a tree.
type File struct {
	Name    string // with slashes
	Size    int64
	ModTime time.Time
	// Open opens it for reading Size bytes; whoever opens closes.
	Open func() (io.ReadCloser, error)
}

// Sums count the files of an archive.
type Sums struct{ Files, Bytes int64 }

// Write writes the files to w. They have to come in the order of [Compare].
func Write(ctx context.Context, w io.Writer, files iter.Seq2[File, error]) (Sums, error) {
	var sums Sums
	t := tar.NewWriter(w)
	last := ""
	for f, err := range files {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = CheckName(f.Name)
		}
		if err == nil {
			err = follow(last, f.Name)
		}
		if err == nil {
			err = add(ctx, t, f)
		}
		if err != nil {
			return sums, err
		}
		last = f.Name
		sums.Files++
		sums.Bytes += f.Size
	}
	return sums, t.Close()
}

func add(ctx context.Context, t *tar.Writer, f File) (err error) {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: f.Size, Mode: 0o600, ModTime: f.ModTime.UTC(), Format: tar.FormatPAX}
	if err := t.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	n, err := io.Copy(t, &reader{ctx: ctx, r: io.LimitReader(r, f.Size)})
	if err == nil && n != f.Size {
		err = fmt.Errorf("it became shorter while it was read: %d bytes, not %d", n, f.Size)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

// Limits bound what an archive may hold.
type Limits struct{ Files, Bytes int64 }

// Scan hands the files of an archive to each, with what they hold, and refuses with
// ErrCorrupt whatever [Write] would not have written. The stream is read to its end.
func Scan(ctx context.Context, r io.Reader, limits Limits, each func(f File, body io.Reader) error) (Sums, error) {
	var sums Sums
	r = &reader{ctx: ctx, r: r}
	t := tar.NewReader(r)
	last := ""
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sums, damaged(ctx, err)
		}
		if err := checkHeader(h); err != nil {
			return sums, err
		}
		if err := follow(last, h.Name); err != nil {
			return sums, err
		}
		last = h.Name
		if sums.Files++; sums.Files > limits.Files {
			return sums, fmt.Errorf("%w: more than %d files", tiers.ErrCorrupt, limits.Files)
		}
		if h.Size > limits.Bytes-sums.Bytes {
			return sums, fmt.Errorf("%w: the files hold more than %d bytes", tiers.ErrCorrupt, limits.Bytes)
		}
		sums.Bytes += h.Size
		if err := each(File{Name: h.Name, Size: h.Size, ModTime: h.ModTime.UTC()}, t); err != nil {
			return sums, damaged(ctx, err)
		}
	}
	switch n, err := io.CopyN(io.Discard, r, 1); {
	case n > 0:
		return sums, fmt.Errorf("%w: something follows the end of the archive", tiers.ErrCorrupt)
	case !errors.Is(err, io.EOF):
		return sums, damaged(ctx, err)
	}
	return sums, nil
}

func checkHeader(h *tar.Header) error {
	if err := CheckName(h.Name); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg || h.Linkname != "" {
		return fmt.Errorf("%w: %.200q is no regular file", tiers.ErrCorrupt, h.Name)
	}
	for k := range h.PAXRecords {
		// Above all no sparse files, which are larger than what is stored.
		if k != "path" && k != "mtime" && k != "size" {
			return fmt.Errorf("%w: %.200q has the attribute %.100q", tiers.ErrCorrupt, h.Name, k)
		}
	}
	if h.Format&tar.FormatGNU != 0 && h.Format&tar.FormatPAX == 0 {
		return fmt.Errorf("%w: %.200q is in a format of GNU tar's", tiers.ErrCorrupt, h.Name)
	}
	return nil
}

// damaged marks errors of the format.
func damaged(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrInsecurePath) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	return err
}

// Unpack unpacks an archive into an empty directory. When it fails, what it has
// unpacked stays, for the caller to remove.
func Unpack(ctx context.Context, r io.Reader, into *os.Root, limits Limits) (Sums, error) {
	return unpack(ctx, r, into, limits, (*os.File).Close, func(string) {})
}

// syncers is how many files are made durable at a time. Each waits for the disk, which
// serves several at once.
const syncers = 16

// Extract does so durably.
func Extract(ctx context.Context, r io.Reader, into *os.Root, limits Limits) (Sums, error) {
	dirs := []string{"."}
	var files errgroup.Group
	files.SetLimit(syncers)
	sums, err := unpack(ctx, r, into, limits, func(f *os.File) error {
		files.Go(func() error { return errors.Join(f.Sync(), f.Close()) })
		return nil
	}, func(dir string) { dirs = append(dirs, dir) })
	if err := errors.Join(err, files.Wait()); err != nil {
		return sums, err
	}
	// A name is durable after the file that it names.
	for _, dir := range slices.Backward(dirs) {
		files.Go(func() error { return syncDir(into, dir) })
	}
	return sums, files.Wait()
}

// unpack tells done of each file that is complete, which closes it, and made of each
// directory.
func unpack(ctx context.Context, r io.Reader, into *os.Root, limits Limits, done func(*os.File) error, made func(dir string)) (Sums, error) {
	var way []string // the directories that the last file is in
	return Scan(ctx, r, limits, func(f File, body io.Reader) error {
		dirs := parents(f.Name)
		for i, dir := range dirs {
			if i < len(way) && way[i] == dir {
				continue
			}
			if err := into.Mkdir(dir, 0o700); err != nil {
				return err
			}
			made(dir)
		}
		way = dirs
		return extract(into, f, body, done)
	})
}

// parents answers the directories of a name, the outermost first.
func parents(name string) (dirs []string) {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	for i, c := range dir {
		if c == '/' {
			dirs = append(dirs, dir[:i])
		}
	}
	return append(dirs, dir)
}

func extract(into *os.Root, f File, body io.Reader, done func(*os.File) error) error {
	out, err := into.OpenFile(f.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, body)
	if err == nil {
		err = into.Chtimes(f.Name, f.ModTime, f.ModTime) // which is a version, and durable with the content
	}
	if err != nil {
		return errors.Join(err, out.Close())
	}
	return done(out)
}

func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrInvalid) || errors.Is(err, os.ErrPermission) {
		err = nil // some systems can't sync a directory
	}
	return errors.Join(err, d.Close())
}

// Files yields the files below a directory in the order of [Compare]. What is
// neither a regular file nor a directory is an error, unless skip, which may be
// nil, says that the name does not count.
func Files(root *os.Root, skip func(name string) bool) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) { walk(root, ".", skip, yield) }
}

func walk(root *os.Root, dir string, skip func(string) bool, yield func(File, error) bool) (more bool) {
	d, err := root.Open(dir)
	if err != nil {
		return yield(File{}, err)
	}
	names, err := d.Readdirnames(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return yield(File{}, err)
	}
	sortParts(names)
	for _, name := range names {
		if dir != "." {
			name = dir + "/" + name
		}
		if skip != nil && skip(name) {
			continue
		}
		st, err := root.Lstat(name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue // removed meanwhile
		case err != nil:
			return yield(File{}, err)
		case st.IsDir():
			if !walk(root, name, skip, yield) {
				return false
			}
			continue
		case !st.Mode().IsRegular():
			return yield(File{}, fmt.Errorf("%w: %s is neither a file nor a directory", tiers.ErrUnsupported, strings.ToValidUTF8(name, "?")))
		}
		f := File{Name: name, Size: st.Size(), ModTime: st.ModTime(), Open: func() (io.ReadCloser, error) { return root.Open(name) }}
		if !yield(f, nil) {
			return false
		}
	}
	return true
}

// reader ends with its context.
type reader struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
