package file

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/filetree"
)

// Survey visits the records of a directory. Only those with a dot-file have to
// be looked into: the others never expire.
func (f *form) Survey(d *filetree.Dir, names []string, now time.Time, sizes bool, visit func(filetree.Sight)) error {
	type seen struct {
		values []string
		meta   bool
	}
	stems := map[string]*seen{}
	at := func(stem string) *seen {
		s := stems[stem]
		if s == nil {
			s = &seen{}
			stems[stem] = s
		}
		return s
	}
	for _, name := range names {
		if hidden, ok := strings.CutPrefix(name, "."); ok {
			if stem, ok := strings.CutSuffix(hidden, metaEnding); ok && stem != "" {
				at(stem).meta = true
			}
		} else if stem, ok := f.Stem(name); ok {
			s := at(stem)
			s.values = append(s.values, name)
		}
	}
	var errs []error
	for stem, s := range stems {
		st := filetree.Sight{Stem: stem, Absent: len(s.values) == 0, Litter: len(s.values) > 1}
		if s.meta && !st.Absent || sizes && len(s.values) > 0 {
			newest, ok, err := f.newest(d, s.values)
			if err != nil || !ok {
				errs = append(errs, err)
				continue
			}
			st.Size = newest.Size
			if s.meta {
				m, err := readMeta(d, stem)
				if err != nil {
					errs = append(errs, err)
				}
				e, _ := m.at(newest.Version())
				st.Expired = !e.Expires.IsZero() && !now.Before(e.Expires)
			}
		}
		visit(st)
	}
	return errors.Join(errs...)
}

func (f *form) newest(d *filetree.Dir, names []string) (newest filetree.File, ok bool, err error) {
	for _, name := range names {
		file, there, err := d.Stat(name)
		if err != nil {
			return filetree.File{}, false, err
		}
		if there && (!ok || file.ModTime.After(newest.ModTime)) {
			newest, ok = file, true
		}
	}
	return newest, ok, nil
}

// Tidy removes the file that lost against a newer one of the same key, and a
// dot-file whose record is gone.
func (f *form) Tidy(d *filetree.Dir, stem string, found filetree.Found) error {
	if len(found.Files) == 0 {
		return d.Drop(metaName(stem))
	}
	var errs []error
	for _, old := range slices.Backward(found.Files[1:]) {
		errs = append(errs, d.Retire(old))
	}
	return errors.Join(errs...)
}
