package tiers

import (
	"context"
	"io"
	"time"
)

// Freezer holds a store still for a copy that takes its time.
type Freezer interface {
	// Freeze waits until nobody commits and calls during, which may be nil, while
	// nobody can: what it freezes elsewhere is of the same instant. An error of
	// during is the answer, and then nothing is frozen. Writers of all processes
	// wait meanwhile, so during must be short and must not use the store. They go
	// on as soon as it has returned.
	//
	// The end of the context ends the frozen view as well.
	Freeze(ctx context.Context, during func(context.Context) error) (Frozen, error)
}

// Frozen is a store as it was at one instant, with what has expired and is not yet
// swept. It may keep the store from tidying up, so it has to be closed soon. It
// serves one call at a time.
type Frozen interface {
	// Content describes what Copy writes, read from the frozen view itself; facts
	// are names of facts that it should answer too. A tree of files is counted by
	// Copy, and has no counts before.
	Content(ctx context.Context, facts ...string) (Content, error)
	// Copy writes the store to w, in the format that Content names. It may be
	// called again and writes the same.
	Copy(ctx context.Context, w io.Writer) error
	Close() error
}

// Formats of a copy.
const (
	FormatSQLite   = "sqlite"   // one database file, whole without a log beside it
	FormatPostgres = "postgres" // tables as COPY of PostgreSQL writes them, which psql reads
	FormatTar      = "tar"      // a tree of files, see package internal/archive
	FormatEntries  = "entries"  // the same, of the local cache
)

// Content is what a copy of a store holds. All counts are of stored rows, whether
// they have expired or not, so that they do not depend on when they are counted.
type Content struct {
	Format   string
	Size     int64 // bytes of the copy; -1: not known before it is written
	Schema   int64 // of the store's own layout
	Sequence uint64
	Version  Version // none above was issued
	Facts    map[string]string
	Records  []SpaceCount     // by namespace and category
	Rows     map[string]int64 // of what else the store keeps: journal, sessions, ...
	Held     time.Duration    // for how long writers waited; 0 for one that was read back

	// What people did to a tree of files, by names within it; 1000 of each at most.
	Edited  []string // edited by hand after the instant and before they were copied, and copied as found
	LeftOut []string // no part of the store, and not in the copy: links, for instance
	Damaged []string // in the copy as found, and not to be read; Rows counts them as "damaged"
}

// SpaceCount is how many records a space has.
type SpaceCount struct {
	Space
	Records int64
}
