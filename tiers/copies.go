package tiers

import (
	"context"
	"iter"
)

// Copies reads what the [Frozen] of a driver wrote, after it has been stored,
// and makes a store of it again.
type Copies interface {
	// Format is the one that it reads.
	Format() string
	// OpenCopy opens the copy at path for reading and changes nothing there. What
	// is no copy is ErrCorrupt, and one of a newer schema ErrSchema. Nobody else
	// may use the path meanwhile.
	OpenCopy(ctx context.Context, path string) (Copy, error)
	// Adopt sets facts in the copy at path, which is to become a store, durably.
	Adopt(ctx context.Context, path string, facts map[string]string) error
	// Seize keeps everybody from opening the store at path until release is
	// called. It is ErrUnavailable, naming who it is, while anyone has it open.
	Seize(ctx context.Context, path string) (release func() error, err error)
	// Beside are the endings of the files that belong to a store beside its own.
	Beside() []string
}

// Replacer is a [Copies] whose stores have an identity of their own, by which others
// know what is meant for them. Without it a copy is always a new store.
type Replacer interface {
	// Replace is Adopt for a copy that is about to replace the store at place. It stays
	// the store that was copied, unless the one at place is another one.
	Replace(ctx context.Context, path, place string, facts map[string]string) error
}

// Copy is a copy that is open for reading. It serves one call at a time, and Check
// beside it.
type Copy interface {
	// Check looks at all of it: what is damaged, or not as the store makes it, is
	// ErrCorrupt.
	Check(ctx context.Context) error
	// Content is that of [Frozen], counted in the copy.
	Content(ctx context.Context, facts ...string) (Content, error)
	// Records yields the records of a space in bytewise order of the key, with
	// what has expired. A record that can't be read is yielded with its key and an
	// error; an error without a key name ends it.
	Records(ctx context.Context, s Space) iter.Seq2[Record, error]
	Close() error
}

// RowCopy is the copy of a store that offers [System].
type RowCopy interface {
	Copy
	// Rows yields the rows of the journal, of all tiers, in order of Seq. An error ends it.
	Rows(ctx context.Context) iter.Seq2[Row, error]
}

// Loader is a store on a server, which a copy can be made a store of.
type Loader interface {
	// LoadCopy makes the store what the copy at path is, which has to be sound. It
	// prepares that aside and switches in one transaction, and answers where what was
	// there before has gone: what the server calls it, "" when the store is the copy
	// already, as its fact of that name says. Nobody else may use the store meanwhile;
	// the handle has to be closed afterwards.
	LoadCopy(ctx context.Context, path, fact string) (replaced string, err error)
}
