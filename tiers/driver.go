package tiers

import (
	"context"
	"log/slog"
)

// Env is what a driver's Open gets. Log and Clock are never nil.
type Env struct {
	Name  string // of the tier in the configuration: memory, cache, database, file or the app's own
	Dir   string // the data directory, for what a driver wants to keep beside the others
	Log   *slog.Logger
	Clock Clock
	// Options fills the driver's options struct from the configuration,
	// strictly; its errors carry file and line.
	Options func(into any) error
}

// Driver is one way to keep a tier, such as redis for the cache.
type Driver struct {
	Tier    string // memory, cache, database or file; empty for one that only serves tiers of the app's own
	Name    string // memory, redis, file, sqlite, ...
	Options any    // pointer to the driver's option struct with its defaults, for checks and for the schema
	Open    func(ctx context.Context, env Env) (Tier, error)
	Copies  Copies // reads its copies; nil for one whose tier is no [Freezer]
	// Evictor makes one for a near layer of that many bytes; nil for a driver whose
	// tier can't stand in front of another.
	Evictor func(budget int64) (Evictor, error)
}

// Drivers is a registry: a plain value. Packages tiers/all and tiers/embedded
// make one; an app appends its own.
type Drivers []Driver

// Find answers the driver of that tier and name.
func (ds Drivers) Find(tier, name string) (Driver, bool) {
	for _, d := range ds {
		if d.Tier == tier && d.Name == name {
			return d, true
		}
	}
	return Driver{}, false
}
