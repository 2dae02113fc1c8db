// Package file is the local cache: records with a TTL in files below a
// directory, for machines that have no Redis.
//
//	BASE/[@NAMESPACE/]CATEGORY/KEY.entry
//
// Keys become names as in package tiers/file. Unlike there, the files are not
// for people: each holds a header of 128 bytes with version, times, codec and
// checksums, and the value behind it. The file's modification time is when the
// entry expires, so that sweeping reads no file.
//
// An acknowledged save survives the process, kill -9 included, and every process
// of the host sees it at once. Nothing is synced, so a power cut may take the
// last seconds of saves: an entry whose file is empty afterwards is absent, one
// that is damaged is [tiers.ErrCorrupt] until it is saved again or deleted.
//
//	t, err := file.Open(ctx, file.Config{Path: "~/.sage/cache"})
package file

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

// Config says what to open. Only Path is needed.
type Config struct {
	Path  string       // directory of the cache, made with its parents; "~" is the home directory
	Name  string       // of the tier in errors; "cache" when empty
	Log   *slog.Logger // nil logs nothing
	Clock tiers.Clock  // nil is the system's clock
}

// Tier is an open cache. Its methods are those of [tiers.Tier] and of the
// capabilities [tiers.Applier], [tiers.Batcher] (not atomic), [tiers.Reserver],
// [tiers.Exister], [tiers.Toucher], [tiers.Sweeper], [tiers.Pinger], [tiers.Statser],
// [tiers.Counter], [tiers.Describer], [tiers.Diagnoser] and [tiers.Freezer].
type Tier struct{ *filetree.Tree }

// Open opens the cache.
func Open(ctx context.Context, c Config) (*Tier, error) {
	name := c.Name
	if name == "" {
		name = "cache"
	}
	tree, err := filetree.Open(ctx, filetree.Config{
		Dir: c.Path, Name: name, Driver: "file", Log: c.Log, Clock: c.Clock, Form: form{}, Copies: tiers.FormatEntries,
	})
	if err != nil {
		return nil, tiers.Fail("open", name, tiers.Key{}, err)
	}
	return &Tier{Tree: tree}, nil
}

// Options are the driver's options in a configuration.
type Options struct {
	Path string // default: "cache" in the data directory
}

// Driver is the registry entry of the local cache.
func Driver() tiers.Driver {
	return tiers.Driver{
		Tier: "cache", Name: "file", Options: &Options{},
		Copies: Copies(),
		Open: func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			var o Options
			if err := env.Options(&o); err != nil {
				return nil, err
			}
			if o.Path == "" {
				o.Path = filepath.Join(env.Dir, "cache")
			}
			return Open(ctx, Config{Path: o.Path, Name: env.Name, Log: env.Log, Clock: env.Clock})
		},
	}
}

// Copies reads the copies that the Frozen of a tier writes, once they are unpacked.
func Copies() tiers.Copies {
	return filetree.Copies(filetree.Config{Name: "cache", Driver: "file", Copies: tiers.FormatEntries}, func() filetree.Form { return form{} })
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
