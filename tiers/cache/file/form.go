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

// Guard allows everything: a damaged entry is there to be replaced.
func (form) Guard(*filetree.Dir, filetree.Found, error) error { return nil }

// Put replaces the file.
func (form) Put(_ context.Context, d *filetree.Dir, stem string, _ filetree.Found, r tiers.Record) (placed bool, err error) {
	content, err := encode(r)
	if err != nil {
		return false, err
	}
	return put(d, stem, content, r.Expires)
}

func put(d *filetree.Dir, stem string, content []byte, expires time.Time) (placed bool, err error) {
	st, err := d.Stage(content, stampOf(expires))
	if err != nil {
		return false, err
	}
	defer st.Discard()
	if err := d.Flush(st); err != nil {
		return false, err
	}
	if err := d.Replace(st, stem+ending); err != nil {
		return false, err
	}
	return true, nil
}

// stampOf is the modification time of a file: the end of its entry, and 1970
// when it has none.
func stampOf(expires time.Time) time.Time {
	if expires.IsZero() {
		return time.Unix(0, 0)
	}
	return expires
}

// Expire writes the file again with another end.
func (f form) Expire(_ context.Context, d *filetree.Dir, stem string, found filetree.Found) error {
	whole, err := f.Find(d, stem, true)
	if err != nil {
		return err
	}
	if len(whole.Files) == 0 {
		return tiers.ErrNotFound // gone by hand, since all others hold the lock
	}
	whole.Record.Expires = found.Record.Expires
	content, err := encode(whole.Record)
	if err != nil {
		return err
	}
	_, err = put(d, stem, content, whole.Record.Expires)
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
