package filetree

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Form is how a tree keeps one record: in which files, with what in them. Its
// methods are called with the stem of those files: the escaped end of the key.
// Those that change what can be seen are called with the key's lock held.
type Form interface {
	// Attach tells the form the tree's directory, once, before all else.
	Attach(root *os.Root)
	// Stem answers the stem of a name that a record's value may have; ok is
	// false for any other name.
	Stem(name string) (stem string, ok bool)
	// Find looks for the record, expired or not. Without whole it may leave out
	// everything but the version and the times. A record that is there but
	// can't be read is answered with its version, and an error. It holds no
	// lock and still sees one state of the record.
	Find(d *Dir, stem string, whole bool) (Found, error)
	// Guard answers an error when a save must not replace what was found. err is
	// what Find said about it.
	Guard(d *Dir, found Found, err error) error
	// Prepare makes everything ready to store r over what was found, and
	// changes nothing that anybody could see. It needs no lock.
	Prepare(d *Dir, stem string, found Found, r tiers.Record) (Prepared, error)
	// Expire stores only when the record ends: found.Record.Expires.
	Expire(ctx context.Context, d *Dir, stem string, found Found) error
	// Remove removes everything of the record. gone tells whether its value is
	// gone, whatever the error.
	Remove(ctx context.Context, d *Dir, stem string, found Found) (gone bool, err error)
	// Sound answers what is wrong with the content of a file that has this name, if the
	// form has such files.
	Sound(name string, content []byte) error
	// Survey visits each stem that the names of a directory hold. Without sizes
	// it may leave those out. It goes on past what it can't read.
	Survey(d *Dir, names []string, now time.Time, sizes bool, visit func(Sight)) error
}

// Prepared is a record that only has to get its name.
type Prepared interface {
	// Place stores the record over what was found. placed tells whether it can
	// be seen, whatever the error. It is called with the key's lock held.
	Place(ctx context.Context, found Found) (placed bool, err error)
	// Discard gives it up, unless it has been placed.
	Discard()
}

// Found is a record as it was found, and in which files; none means that it is
// not there.
type Found struct {
	Record tiers.Record // without the key
	Files  []File       // with the record's value, the one that counts first
	Meta   any          // what the form wants to remember
}

// same tells whether nothing has changed between two looks.
func (f Found) same(other Found) bool {
	a, b := &f.Record, &other.Record
	return a.Version == b.Version && a.Created.Equal(b.Created) && a.Updated.Equal(b.Updated) && a.Expires.Equal(b.Expires) &&
		a.Schema == b.Schema && slices.EqualFunc(f.Files, other.Files, func(x, y File) bool { return x.Name == y.Name && x.same(y.Ident) })
}

// Sight is what can be told of a record without reading its value.
type Sight struct {
	Stem    string
	Size    int64 // of the value
	Absent  bool  // there is no value: what is there is left over
	Expired bool
	Litter  bool // something of it is left over, which Remove or Place did not finish
}

// Sweeping is implemented by a form that leaves litter; Tidy removes it. It is
// called with the key's lock held.
type Sweeping interface {
	Tidy(d *Dir, stem string, found Found) error
}
