package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/internal/home"
	"github.com/sagestore/sagestore/tiers"
)

// chooseEmpty finds the stores that are there and have to begin anew.
func (w *restore) chooseEmpty() error {
	for _, name := range slices.Sorted(maps.Keys(w.o.Empty)) {
		if w.o.Places[name] == "" || slices.ContainsFunc(w.m.Parts, func(p PartInfo) bool { return p.Name == name }) {
			continue
		}
		place, err := absolute(w.o.Places[name])
		if err != nil {
			return err
		}
		_, err = os.Lstat(place)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		w.empty = append(w.empty, &PartInfo{Name: name, Format: w.o.Empty[name], Schema: 1})
	}
	return nil
}

// places answers where the parts go, all of it absolute, after a look at whether they
// may go there.
func (w *restore) places() (dir string, places map[string]string, err error) {
	if w.o.Dir == "" {
		return "", nil, errors.New("neither a directory to restore to nor the data directory of a store is named")
	}
	if dir, err = absolute(w.o.Dir); err != nil {
		return "", nil, err
	}
	protect := []string{dir}
	for _, p := range w.o.Protect {
		if p, err = absolute(p); err != nil {
			return "", nil, err
		}
		protect = append(protect, p)
	}
	if b, ok := w.r.bucket.(*dirBucket); ok {
		p, err := absolute(b.path)
		if err != nil {
			return "", nil, err
		}
		protect = append(protect, p)
	}
	places = map[string]string{}
	for _, p := range slices.Concat(w.parts, w.empty) {
		place := w.o.Places[p.Name]
		if place == "" {
			return "", nil, part(p.Name, errors.New("there is no place for it: name one, or leave the part out"))
		}
		if place, err = absolute(place); err != nil {
			return "", nil, err
		}
		for _, other := range protect {
			if within(other, place) {
				return "", nil, part(p.Name, fmt.Errorf("%w: restoring to %s would move %s", tiers.ErrUnsupported, place, other))
			}
		}
		for name, other := range places {
			if within(place, other) || within(other, place) {
				return "", nil, part(p.Name, fmt.Errorf("%w: %s and part %s are in each other's place", tiers.ErrUnsupported, place, name))
			}
		}
		places[p.Name] = place
	}
	return dir, places, nil
}

func absolute(path string) (string, error) {
	path, err := home.Expand(path)
	if err != nil {
		return "", err
	}
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("the path %q holds a NUL byte", path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	// A link on the way would make one place look like two.
	dir, base := filepath.Split(path)
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		path = filepath.Join(resolved, base)
	}
	return path, nil
}

// within tells whether a path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func parentsOf(places map[string]string) (dirs []string) {
	for _, name := range slices.Sorted(maps.Keys(places)) {
		dirs = append(dirs, filepath.Dir(places[name]))
	}
	return dirs
}

func checkEmpty(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(names) > 0 {
		err = tiers.Hint(fmt.Errorf("%s: %w", dir, tiers.ErrExists), "restore into a directory that is empty or not there, with --to")
	}
	return err
}
