package filetree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/tiers"
)

const (
	// judged is how large, in bytes, a file may be to be looked at as a whole while it
	// is copied. Larger ones are only copied.
	judged = 16 << 20
	// listedMost bounds the names of files that are told of.
	listedMost = 1000
)

// view is a tree to copy from, or a copy to look at.
type view interface {
	// list answers what is in a directory, or was there a moment ago.
	list(dir string) (entries, error)
	// open opens a file; fs.ErrNotExist is no error for the copy.
	open(name string) (opening, error)
}

// entries are kinds of files by name.
type entries map[string]fs.FileMode

// opening is an open file, or what stands for one.
type opening struct {
	file    *os.File // nil: it is content
	content []byte
	at      time.Time // of content
	edited  bool
}

var errIrregular = errors.New("it is not a regular file")

// openFile opens a regular file. What is none must not be waited for.
func openFile(root *os.Root, name string) (opening, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return opening{}, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return opening{}, also(err, f.Close())
	}
	return opening{file: f}, nil
}

// listDir reads a directory; one that is not there is empty.
func listDir(root *os.Root, dir string) (entries, error) {
	all := entries{}
	f, err := openDirectory(root, orRoot(strings.TrimSuffix(dir, "/")))
	if isAbsent(err) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := f.ReadDir(-1)
	if isAbsent(err) {
		err = nil
	}
	for _, e := range found {
		all[e.Name()] = e.Type()
	}
	return all, also(err, f.Close())
}

// walker walks a view in the order of an archive, and counts.
type walker struct {
	tree  *Tree // knows which files are records
	from  view
	buf   bytes.Buffer
	count tiers.Content
	bad   int64
	// version is the highest that was issued, as the mark among the files says.
	version tiers.Version
	marked  bool
	spaces  map[tiers.Space]int64
}

// content answers what was walked over.
func (w *walker) content(sums archive.Sums) tiers.Content {
	c := w.count
	c.Format, c.Size, c.Schema, c.Version = w.tree.copies, -1, Layout, w.version
	c.Rows = map[string]int64{"files": sums.Files, "bytes": sums.Bytes, "damaged": w.bad}
	for _, s := range slices.SortedFunc(maps.Keys(w.spaces), cmpSpace) {
		c.Records = append(c.Records, tiers.SpaceCount{Space: s, Records: w.spaces[s]})
	}
	return c
}

// files yields the files of the view.
func (w *walker) files() iter.Seq2[archive.File, error] {
	return func(yield func(archive.File, error) bool) {
		w.spaces = map[tiers.Space]int64{}
		w.walk("", yield)
	}
}

func (w *walker) walk(dir string, yield func(archive.File, error) bool) (more bool) {
	all, err := w.from.list(dir)
	if err != nil {
		return yield(archive.File{}, err)
	}
	stems := map[string]bool{}
	last := ""
	for _, name := range slices.SortedFunc(maps.Keys(all), compareNames) {
		path := strings.TrimPrefix(dir+"/"+name, "/")
		mode := all[name]
		switch {
		case mode.IsRegular() && !visible(name), path == lockDir, path == snapshotDir:
			continue
		case mode.IsDir() && name[0] == '.', !mode.IsDir() && !mode.IsRegular(), archive.CheckName(path) != nil,
			last != "" && archive.Compare(last, name) == 0:
			listName(&w.count.LeftOut, path)
			continue
		case mode.IsDir():
			if !w.walk(path, yield) {
				return false
			}
		default:
			if !w.file(dir, path, name, stems, yield) {
				return false
			}
		}
		last = name
	}
	return true
}

// file yields one file.
func (w *walker) file(dir, path, name string, stems map[string]bool, yield func(archive.File, error) bool) (more bool) {
	o, err := w.from.open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if errors.Is(err, errIrregular) {
		listName(&w.count.LeftOut, path)
		return true
	}
	if err != nil {
		return yield(archive.File{}, fmt.Errorf("%s: %w", path, err))
	}
	f := archive.File{Name: path, ModTime: o.at, Size: int64(len(o.content))}
	body := io.NopCloser(bytes.NewReader(o.content))
	if o.file != nil {
		defer func() { _ = o.file.Close() }() // was only read
		fi, err := o.file.Stat()
		if err != nil {
			return yield(archive.File{}, fmt.Errorf("%s: %w", path, err))
		}
		f.ModTime, f.Size, body = fi.ModTime(), fi.Size(), io.NopCloser(o.file)
		if f.Size <= judged {
			// As found: a person may just be writing it.
			w.buf.Reset()
			if _, err := w.buf.ReadFrom(io.LimitReader(o.file, judged)); err != nil {
				return yield(archive.File{}, fmt.Errorf("%s: %w", path, err))
			}
			f.Size, body = int64(w.buf.Len()), io.NopCloser(bytes.NewReader(w.buf.Bytes()))
			o.content = w.buf.Bytes()
		}
	}
	if o.edited && (dir != "" || name[0] != '.') { // the tree adds to its own files
		listName(&w.count.Edited, path)
	}
	if f.Size <= judged && w.tree.form.Sound(name, o.content) != nil {
		w.bad++
		listName(&w.count.Damaged, path)
	}
	if path == markFile {
		w.version, w.marked = versionOfMark(o.content)
	}
	if s, stem, ok := w.tree.recordAt(dir, path); ok && !stems[stem] {
		stems[stem] = true
		w.spaces[s]++
	}
	f.Open = func() (io.ReadCloser, error) { return body, nil }
	return yield(f, nil)
}

// compareNames is the order of an archive, and a definite one of names that are the
// same there.
func compareNames(a, b string) int {
	return cmp.Or(archive.Compare(a, b), strings.Compare(a, b))
}

func listName(list *[]string, name string) {
	if len(*list) < listedMost {
		*list = append(*list, strings.ToValidUTF8(name, "\uFFFD"))
	}
}

// recordAt answers the space of a record by the path of one of its values, and the
// stem of its files.
func (t *Tree) recordAt(dir, path string) (s tiers.Space, stem string, ok bool) {
	name := path[len(path)-len(strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")):]
	if name[0] == '.' || strings.Contains(name, edited) {
		return s, "", false
	}
	stem, ok = t.form.Stem(name)
	if !ok {
		return s, "", false
	}
	s, it, ok := t.identifyPath(path, 0)
	return s, stem, ok && it.foreign == nil
}
