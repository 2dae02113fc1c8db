// Package file is the tier that people can read: a directory tree with one file
// a record.
//
//	BASE/config/settings.json                  category config, key settings
//	BASE/@acme/config/settings.json            the same in namespace acme
//	BASE/notes/2026/trip.msgpack.sage          category notes, key 2026/trip, another codec
//	BASE/notes/2026/.trip.meta                 what the file itself can't say, when there is any of it
//
// JSON is indented when it is saved and compacted when it is loaded. It may be
// edited by hand: the edit is what the next load answers, with a new version. A
// file that no longer parses is [tiers.ErrCorrupt] with path and line; a save
// over it is refused with the same error, so mend the file, or delete the record
// to give it up. Files dropped into a category's directory are records of it. An
// edit that slips in while a save is under way is kept beside the record as
// NAME.edited-VERSION, where the file system can swap two names in one step
// (Linux: ext4, xfs, btrfs, tmpfs).
//
// Everything that is not plain JSON text, compact and valid, is kept as
// KEY.CODEC.sage, which holds the envelope that docs/FORMAT.md describes. A save
// with another codec writes the new file and then removes the old one; if a
// crash leaves both, the newer one counts and the other is swept.
//
// In keys, bytes other than a-z, 0-9, "_", "-" and inner dots become %XX, and
// "/" separates directories: the key Über/A is %C3%9Cber/%41.json. So names are
// the same on file systems that fold case and on those that don't. A part of
// more than 160 escaped bytes is split over directories that end in "+".
//
// The version of a record is its file's modification time in microseconds. It
// grows with every save, also when the clock does not.
//
// A save is acknowledged once the file and its name are durable: temp file,
// fsync, rename, fsync of the directory, which callers of one directory share.
// Once an fsync has failed, saves and deletes through this handle answer
// [tiers.ErrUnavailable] until the store is opened again, since the system
// does not say twice that it lost something; loads go on. Several processes of
// one host may have a tree open. Files have mode 0600, directories 0700.
//
// Four dot-names lie in BASE itself: .lock holds the locks, .mark the highest
// version issued, .codecs the codecs of the .sage files, and .snapshot, while a
// backup copies the tree, what has changed meanwhile. A copy of the tree takes
// .codecs and .mark along; .lock is made again.
//
//	t, err := file.Open(ctx, file.Config{BasePath: "~/.sage/data"})
package file

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

// Config says what to open. Only BasePath is needed.
type Config struct {
	BasePath string       // directory of the tree, made with its parents; "~" is the home directory
	Name     string       // of the tier in errors; "file" when empty
	Log      *slog.Logger // nil logs nothing
	Clock    tiers.Clock  // nil is the system's clock
}

// Tier is an open tree. Its methods are those of [tiers.Tier] and of the
// capabilities [tiers.Applier], [tiers.Batcher] (not atomic), [tiers.Reserver],
// [tiers.Exister], [tiers.Toucher], [tiers.Sweeper], [tiers.Pinger], [tiers.Statser],
// [tiers.Counter], [tiers.Describer], [tiers.Diagnoser] and [tiers.Freezer].
type Tier struct{ *filetree.Tree }

// Open opens the tree. On a read-only file system it can be read.
func Open(ctx context.Context, c Config) (*Tier, error) {
	name := c.Name
	if name == "" {
		name = "file"
	}
	tree, err := filetree.Open(ctx, filetree.Config{
		Dir: c.BasePath, Name: name, Driver: "file", Log: c.Log, Clock: c.Clock, Durable: true, Form: &form{},
	})
	if err != nil {
		return nil, tiers.Fail("open", name, tiers.Key{}, err)
	}
	return &Tier{Tree: tree}, nil
}

// Options are the driver's options in a configuration.
type Options struct {
	BasePath string // default: "data" in the data directory
	Format   string // codec of categories of this tier that name none: json or msgpack; for the manager
}

// Driver is the registry entry of this tier.
func Driver() tiers.Driver {
	return tiers.Driver{
		Tier: "file", Name: "file", Options: &Options{Format: "json"},
		Copies: Copies(),
		Open: func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			o := Options{Format: "json"}
			if err := env.Options(&o); err != nil {
				return nil, err
			}
			if o.BasePath == "" {
				o.BasePath = filepath.Join(env.Dir, "data")
			}
			return Open(ctx, Config{BasePath: o.BasePath, Name: env.Name, Log: env.Log, Clock: env.Clock})
		},
	}
}

// Copies reads the copies that the Frozen of a tier writes, once they are unpacked.
func Copies() tiers.Copies {
	return filetree.Copies(filetree.Config{Name: "file", Driver: "file", Durable: true}, func() filetree.Form { return &form{} })
}

// The capabilities, and that they stay.
var (
	_ tiers.Tier      = (*Tier)(nil)
	_ tiers.Applier   = (*Tier)(nil)
	_ tiers.Batcher   = (*Tier)(nil)
	_ tiers.Reserver  = (*Tier)(nil)
	_ tiers.Exister   = (*Tier)(nil)
	_ tiers.Toucher   = (*Tier)(nil)
	_ tiers.Sweeper   = (*Tier)(nil)
	_ tiers.Pinger    = (*Tier)(nil)
	_ tiers.Statser   = (*Tier)(nil)
	_ tiers.Counter   = (*Tier)(nil)
	_ tiers.Describer = (*Tier)(nil)
	_ tiers.Diagnoser = (*Tier)(nil)
	_ tiers.Freezer   = (*Tier)(nil)
)
