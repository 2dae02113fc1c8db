package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

const ending = ".entry"

// form keeps a record in one file, see entry.go.
type form struct{}

// Attach has nothing to prepare.
func (form) Attach(*os.Root) {}

// Stem splits KEY.entry.
func (form) Stem(name string) (stem string, ok bool) {
	stem, ok = strings.CutSuffix(name, ending)
	return stem, ok && stem != ""
}

// Find reads the record. One file is one state, so no lock is needed.
func (form) Find(d *filetree.Dir, stem string, whole bool) (found filetree.Found, err error) {
	name := stem + ending
	limit := int64(headerSize)
	if whole {
		limit = -1
	}
	content, file, err := d.Read(name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return filetree.Found{}, nil
	}
	if err != nil {
		return filetree.Found{}, err
	}
	var lost bool
	found.Files = []filetree.File{file}
	if whole {
		found.Record, lost, err = decode(content)
	} else {
		found.Record, _, _, lost, err = decodeHeader(content)
	}
	if lost {
		return filetree.Found{}, nil
	}
	if err != nil {
		// It is there, so it has a version; any save is above it.
		found.Record.Version = max(found.Record.Version, 1)
		found.Record.Expires = time.Time{}
		err = tiers.Hint(fmt.Errorf("%s: %w", d.Path(name), err), "save it again, or delete it")
	}
	return found, err
}

// Sound decodes an entry.
func (form) Sound(name string, content []byte) error {
	if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ending) {
		return nil
	}
	_, _, err := decode(content)
	return err
}

// Guard allows everything: a damaged entry is there to be replaced.
func (form) Guard(*filetree.Dir, filetree.Found, error) error { return nil }

// prepared is a file that only needs its name.
type prepared struct {
	dir    *filetree.Dir
	name   string
	staged *filetree.Staged
}

// Prepare stages the file.
func (form) Prepare(d *filetree.Dir, stem string, _ filetree.Found, r tiers.Record) (filetree.Prepared, error) {
	content, err := encode(r)
	if err != nil {
		return nil, err
	}
	st, err := d.Stage(content, stampOf(r.Expires))
	if err != nil {
		return nil, err
	}
	if err := d.Flush(st); err != nil {
		st.Discard()
		return nil, err
	}
	return &prepared{dir: d, name: stem + ending, staged: st}, nil
}

// Place replaces the file.
func (p *prepared) Place(context.Context, filetree.Found) (placed bool, err error) {
	if err := p.dir.Replace(p.staged, p.name); err != nil {
		return false, err
	}
	return true, nil
}

// Discard removes the file unless it has its name.
func (p *prepared) Discard() { p.staged.Discard() }

// stampOf is the modification time of a file: the end of its entry, and 1970
// when it has none.
func stampOf(expires time.Time) time.Time {
	if expires.IsZero() {
		return time.Unix(0, 0)
	}
	return expires
}

// Expire writes the file again with another end.
func (f form) Expire(ctx context.Context, d *filetree.Dir, stem string, found filetree.Found) error {
	whole, err := f.Find(d, stem, true)
	if err != nil {
		return err
	}
	if len(whole.Files) == 0 {
		return tiers.ErrNotFound // gone by hand, since all others hold the lock
	}
	whole.Record.Expires = found.Record.Expires
	p, err := f.Prepare(d, stem, whole, whole.Record)
	if err != nil {
		return err
	}
	defer p.Discard()
	_, err = p.Place(ctx, whole)
	return err
}

// Remove removes the file.
func (form) Remove(_ context.Context, d *filetree.Dir, stem string, _ filetree.Found) (gone bool, err error) {
	if err := d.Drop(stem + ending); err != nil {
		return false, err
	}
	return true, nil
}

// Survey looks at the files' times and sizes only.
func (form) Survey(d *filetree.Dir, names []string, now time.Time, _ bool, visit func(filetree.Sight)) error {
	var errs []error
	for _, name := range names {
		stem, ok := strings.CutSuffix(name, ending)
		if !ok || stem == "" {
			continue
		}
		file, ok, err := d.Stat(name)
		if err != nil {
			errs = append(errs, err)
		}
		if err != nil || !ok {
			continue
		}
		end := file.ModTime
		visit(filetree.Sight{
			Stem: stem, Size: max(file.Size-headerSize, 0),
			Absent:  file.Size < headerSize,
			Expired: end.Unix() != 0 && !now.Before(end),
		})
	}
	return errors.Join(errs...)
}

// Tidy removes a file of which nothing ever reached the disk.
func (form) Tidy(d *filetree.Dir, stem string, found filetree.Found) error {
	if len(found.Files) == 0 {
		return d.Drop(stem + ending)
	}
	return nil
}
