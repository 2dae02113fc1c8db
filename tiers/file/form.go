package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

const (
	plainEnding    = ".json"
	envelopeEnding = ".sage"
	metaEnding     = ".meta"
)

// form is how this tier keeps a record: see the package's documentation.
type form struct {
	codecs codecs
	whole  filetree.Seen // JSON files that are as this handle wrote them
}

// Attach tells the form the tree's directory.
func (f *form) Attach(root *os.Root) { f.codecs.attach(root) }

// looks is how often a record that changes under the reader is looked at.
const looks = 5

// Stem splits KEY.json and KEY.CODEC.sage.
func (f *form) Stem(name string) (stem string, ok bool) {
	if stem, ok = strings.CutSuffix(name, plainEnding); ok {
		return stem, stem != ""
	}
	rest, ok := strings.CutSuffix(name, envelopeEnding)
	if !ok {
		return "", false
	}
	i := strings.LastIndexByte(rest, '.')
	if i <= 0 || !f.codecs.known(rest[i+1:]) {
		return "", false
	}
	return rest[:i], true
}

// Find looks for the record without a lock. What it answers was true at one
// moment: the value is read first, then the dot-file, whose entries tell for
// which version they hold.
func (f *form) Find(d *filetree.Dir, stem string, whole bool) (filetree.Found, error) {
	for try := 1; ; try++ {
		files, err := f.files(d, stem)
		if err != nil || len(files) == 0 {
			return filetree.Found{}, err
		}
		found := filetree.Found{Files: files}
		r := &found.Record
		var content []byte
		if whole {
			var as filetree.File
			content, as, err = d.Read(files[0].Name, -1)
			if errors.Is(err, fs.ErrNotExist) && try < looks {
				continue
			}
			if err != nil {
				return filetree.Found{}, err
			}
			files[0] = as
		}
		r.Version = files[0].Version()
		m, err := readMeta(d, stem)
		if err != nil {
			entry{}.describe(r)
			return found, err
		}
		e, holds := m.at(r.Version)
		if !holds && try < looks {
			// Nothing is said about this version. That is right if it is still
			// there; else the dot-file is that of a later one.
			if now, ok, err := d.Stat(files[0].Name); err != nil || !ok || now.Version() != r.Version {
				continue
			}
		}
		found.Meta = m
		e.describe(r)
		if whole {
			err = decode(r, content, d.Path(files[0].Name), strings.HasSuffix(files[0].Name, plainEnding))
		}
		return found, err
	}
}

// decode fills what comes from the content of the value's file.
func decode(r *tiers.Record, content []byte, path string, plain bool) (err error) {
	if plain {
		r.Codec, r.Flags = "json", 0
		r.Value, err = compact(content, path)
		return err
	}
	if err := unwrap(r, content); err != nil {
		return tiers.Hint(fmt.Errorf("%s: %w", path, err), "restore the file from a backup, or delete the record to give it up")
	}
	return nil
}

// Sound parses what has a name of one of the tree's files.
func (f *form) Sound(name string, content []byte) error {
	if strings.HasPrefix(name, ".") {
		if !strings.HasSuffix(name, metaEnding) {
			return nil
		}
		var m meta
		return json.Unmarshal(content, &m)
	}
	switch _, ok := f.Stem(name); {
	case !ok:
		return nil
	case strings.HasSuffix(name, plainEnding):
		_, err := compact(content, name)
		return err
	}
	_, _, err := envelope.Parse(content)
	return err
}

// files answers the files that hold the record's value, the newest first. More
// than one is there only while a save changes the codec, or after a crash in
// the middle of that.
func (f *form) files(d *filetree.Dir, stem string) ([]filetree.File, error) {
	files, err := f.among(d, stem, f.codecs.used(), false)
	if err != nil || len(files) > 0 {
		return files, err
	}
	// A save that changes the codec makes the new file before it removes the
	// old one, so looking again in the other direction can't miss both. And
	// another process, or a person, may have brought a codec that was not in
	// use here until now.
	if err := f.codecs.refresh(); err != nil {
		return nil, err
	}
	files, err = f.among(d, stem, f.codecs.endings(), true)
	for _, file := range files {
		f.codecs.use(file.Name[len(stem):])
	}
	return files, err
}

func (f *form) among(d *filetree.Dir, stem string, endings []string, backwards bool) ([]filetree.File, error) {
	var files []filetree.File
	for i := range endings {
		if backwards {
			i = len(endings) - 1 - i
		}
		file, ok, err := d.Stat(stem + endings[i])
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		files = append(files, file)
		if n := len(files) - 1; n > 0 && files[n].ModTime.After(files[0].ModTime) {
			files[0], files[n] = files[n], files[0]
		}
	}
	return files, nil
}

// Guard refuses to save over JSON that does not parse: it is what a person was
// writing.
func (f *form) Guard(d *filetree.Dir, found filetree.Found, err error) error {
	if err != nil {
		return err
	}
	name := found.Files[0].Name
	if !strings.HasSuffix(name, plainEnding) || f.whole.Has(found.Files[0].Ident) {
		return nil
	}
	content, _, err := d.Read(name, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = compact(content, d.Path(name))
	return err
}

// prepared is a record whose files are complete and durable, but for their
// names.
type prepared struct {
	form  *form
	dir   *filetree.Dir
	name  string
	value *filetree.Staged
	said  saying
}

// Prepare stages the value, and the dot-file when it has something new to say.
func (f *form) Prepare(d *filetree.Dir, stem string, found filetree.Found, r tiers.Record) (filetree.Prepared, error) {
	ending, content, err := encode(r)
	if err != nil {
		return nil, err
	}
	if err := f.codecs.learn(ending); err != nil {
		return nil, err
	}
	p := &prepared{form: f, dir: d, name: stem + ending}
	if p.value, err = d.Stage(content, filetree.TimeOf(r.Version)); err == nil {
		p.said, err = f.stageMeta(d, stem, found, r, ending != plainEnding)
	}
	if err == nil {
		err = d.Flush(p.said.staged, p.value)
	}
	if err != nil {
		p.Discard()
		return nil, err
	}
	return p, nil
}

// Discard removes what has no name yet.
func (p *prepared) Discard() {
	p.value.Discard()
	p.said.staged.Discard()
}

// Place gives the dot-file its name first, and then the value.
func (p *prepared) Place(ctx context.Context, found filetree.Found) (placed bool, err error) {
	if err := p.said.place(ctx, p.dir); err != nil {
		return false, err
	}
	var over *filetree.File
	for i := range found.Files {
		if found.Files[i].Name == p.name {
			over = &found.Files[i]
		}
	}
	as, err := p.value.Ident()
	if err != nil {
		return false, err
	}
	if err := p.dir.Swap(p.value, p.name, over); err != nil {
		return false, err
	}
	p.form.whole.Add(as)
	for _, old := range found.Files {
		if old.Name != p.name {
			err = errors.Join(err, p.dir.Retire(old))
		}
	}
	return true, err
}

// saying is a dot-file about to be replaced.
type saying struct {
	staged *filetree.Staged // nil: it stays as it is
	name   string
	grave  bool
}

// place gives the dot-file its name. Where a lost entry would make the record
// wrong, that is durable before the value follows.
func (s saying) place(ctx context.Context, d *filetree.Dir) error {
	if s.staged == nil {
		return nil
	}
	if err := d.Replace(s.staged, s.name); err != nil || !s.grave {
		return err
	}
	err := d.Sync(ctx)
	if errors.Is(err, tiers.ErrCommitUnknown) {
		return context.Cause(ctx) // the value was not touched yet
	}
	return err
}

// stageMeta stages the dot-file that says what is right for r and, until the
// value is in place, for what was found.
func (f *form) stageMeta(d *filetree.Dir, stem string, found filetree.Found, r tiers.Record, inEnvelope bool) (s saying, err error) {
	m, ok := found.Meta.(meta)
	var broken error
	if !ok {
		// Nothing was found, but a delete that was cut short may have left a
		// dot-file behind.
		m, broken = readMeta(d, stem)
	}
	now, _ := m.at(r.Version)
	if broken == nil && now.says(r, inEnvelope) {
		return saying{}, nil
	}
	if inEnvelope {
		r.Schema = 1 // the envelope says its own
	}
	want := entryOf(r)
	next := meta{Entries: []entry{want}}
	if before, holds := m.at(found.Record.Version); holds && found.Record.Version != r.Version {
		next.Entries = []entry{before, want}
	}
	content, err := next.encode()
	if err != nil {
		return saying{}, err
	}
	s = saying{name: metaName(stem), grave: want.grave() || now.grave() || broken != nil}
	s.staged, err = d.Stage(content, want.stamp())
	return s, err
}

// stamp is the modification time of a dot-file. Nobody reads it.
func (e entry) stamp() time.Time { return filetree.TimeOf(e.From) }

// Expire stores when the record ends.
func (f *form) Expire(ctx context.Context, d *filetree.Dir, stem string, found filetree.Found) error {
	r := found.Record
	inEnvelope := !strings.HasSuffix(found.Files[0].Name, plainEnding)
	said, err := f.stageMeta(d, stem, found, r, inEnvelope)
	if err != nil || said.staged == nil {
		return err
	}
	defer said.staged.Discard()
	if err := d.Flush(said.staged); err != nil {
		return err
	}
	said.grave = false // the caller syncs
	return said.place(ctx, d)
}

// Remove removes the value, and then the dot-file, which must not get lost
// before the value does.
func (f *form) Remove(ctx context.Context, d *filetree.Dir, stem string, found filetree.Found) (gone bool, err error) {
	for _, file := range slices.Backward(found.Files) {
		if err := d.Retire(file); err != nil {
			return false, err // the one that counts goes last
		}
	}
	if _, there, err := d.Stat(metaName(stem)); err != nil || !there {
		return true, err
	}
	if err := d.Sync(ctx); err != nil {
		return true, err
	}
	return true, d.Drop(metaName(stem))
}
