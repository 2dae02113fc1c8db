package backup

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// Bucket is where backups are kept: a directory, see [Dir], or an object store.
// Names are parts of A-Z, a-z, 0-9, ".", "_" and "-", joined by slashes. It is safe
// for concurrent use.
type Bucket interface {
	// Put stores all of r under the name, or nothing: an object is there only when
	// r has ended with io.EOF, and durably when Put has returned. It replaces one of
	// that name.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get opens an object for reading. One that is not there is tiers.ErrNotFound,
	// or another error that is fs.ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List yields the names that begin with the prefix, in any order.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Lister is what a bucket may implement besides, to tell sizes as well: a list of
// backups then shows those of which a part was cut.
type Lister interface {
	// Objects yields what List would, with the sizes.
	Objects(ctx context.Context, prefix string) iter.Seq2[Object, error]
}

// Object is what a list tells of an object.
type Object struct {
	Name string
	Size int64 // in bytes; -1: not known
}

// ListerOf answers the bucket as one that tells sizes, as far as it does.
func ListerOf(b Bucket) Lister {
	if l, ok := b.(Lister); ok {
		return l
	}
	return sizeless{b}
}

type sizeless struct{ bucket Bucket }

// Objects implements Lister.
func (s sizeless) Objects(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for name, err := range s.bucket.List(ctx, prefix) {
			if !yield(Object{Name: name, Size: -1}, err) {
				return
			}
		}
	}
}

// checkObject answers an error for a name that no backup writes.
func checkObject(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || len(part) > 200 || strings.ContainsFunc(part, strange) {
			return fmt.Errorf("%w: %.200q can't be the name of an object", tiers.ErrKey, name)
		}
	}
	return nil
}

func strange(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}
