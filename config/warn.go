package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/internal/nearest"
)

// Warning is about a setting that is right and may still surprise.
type Warning struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

// String puts the whole into one line.
func (w Warning) String() string {
	if w.File == "" && w.Line == 0 {
		return w.Path + ": " + w.Message
	}
	return position(w.File, w.Line) + ": " + w.Path + ": " + w.Message
}

// Warnings answers what deserves a second look, in the order of the file.
func (e *Effective) Warnings() []Warning {
	f := faults{origin: e.raw.origin}
	warn := func(message string, at ...string) { f.add(at, message) }
	c := e.raw

	if c.Redis != nil && e.drivers["cache"] != "redis" {
		warn("is not used, since "+c.where("cache", "driver")+" is "+e.drivers["cache"], "redis")
	}
	if c.Cache.Path != "" && e.drivers["cache"] != "file" {
		warn("is not used, since the cache is Redis", "cache", "path")
	}
	if c.Postgres != nil && e.drivers["database"] != "postgres" {
		warn("is not used, since "+c.where("database", "driver")+" is "+e.drivers["database"], "postgres")
	}
	if c.SQLite != (SQLite{}) && e.drivers["database"] != "sqlite" {
		warn("is not used, since the database is PostgreSQL", "sqlite")
	}
	if c.SQLite.Path == ":memory:" {
		warn("keeps the database in this process: it is gone at the end", "sqlite", "path")
	}
	if e.InMemory {
		warn("keeps everything in this process: it is gone at the end", "in_memory")
	}
	e.warnCategories(warn)
	e.warnBackup(warn)
	e.warnPlaces(warn)
	if c.Encryption.Current == "" && len(c.Encryption.Keys) > 0 {
		warn("names no current key: values can be read, and not be encrypted", "encryption")
	}

	_ = f.err() // sorts
	all := make([]Warning, len(f.found))
	for i, w := range f.found {
		all[i] = Warning{File: w.File, Line: w.Line, Path: w.Path, Message: w.Problem}
	}
	return all
}

// warnPlaces tells of tiers that keep their files in the directory of another one, which
// may take them for its own.
func (e *Effective) warnPlaces(warn func(string, ...string)) {
	if e.InMemory {
		return
	}
	inside := func(path, dir, whose string, at ...string) {
		if path != "" && dir != "" && (within(path, dir) || within(followed(path), followed(dir))) {
			warn("is inside "+whose+": who lists or tidies the one meets the other; keep them apart", at...)
		}
	}
	files, cache := e.cfg.File.BasePath, ""
	if e.drivers["cache"] == "file" {
		cache = e.cfg.Cache.Path
	}
	if e.drivers["database"] == "sqlite" && e.cfg.SQLite.Path != ":memory:" {
		inside(e.cfg.SQLite.Path, files, "file.base_path", "sqlite", "path")
		inside(e.cfg.SQLite.Path, cache, "cache.path", "sqlite", "path")
	}
	inside(cache, files, "file.base_path", "cache", "path")
	if cache != files {
		inside(files, cache, "cache.path", "file", "base_path")
	}
}

func (e *Effective) warnBackup(warn func(string, ...string)) {
	b := e.raw.Backup
	switch {
	case b.Enabled && e.InMemory:
		warn("backs up nothing: everything lives in this process", "backup")
	case !b.Enabled && (b.Interval != "" || b.Cron != "" || b.Dest != ""):
		warn("is not enabled: no backup is made by itself, only by sagestore backup create or serve", "backup")
	}
	if b.Cache && e.drivers["cache"] == "redis" {
		warn("has no effect: what Redis holds is in no backup", "backup", "cache")
	}
	if len(b.Recipients) > 0 && len(b.Identities) == 0 && b.Rehearse != "" && b.Rehearse != "never" {
		warn("has no effect: without identities an encrypted backup can't be opened again later", "backup", "rehearse")
	}
}

const unusedNear = "has no effect: the category has no near layer"

func (e *Effective) warnCategories(warn func(string, ...string)) {
	var process, encrypted []string
	shared := ""
	for _, tier := range []string{"cache", "database"} {
		if driver := e.drivers[tier]; driver == "redis" || driver == "postgres" {
			shared = driver
		}
	}
	for _, p := range e.Policies() {
		at := []string{"categories", p.Category}
		if p.Tier == "memory" {
			process = append(process, p.Category)
		}
		if p.Encrypt {
			encrypted = append(encrypted, p.Category)
		}
		if known := e.missed(p.Category); known != "" {
			warn(fmt.Sprintf("is a category of its own: the built-in one is %s", known), at...)
		}
		if c := e.raw.Categories[p.Category]; len(p.Near) == 0 && !e.InMemory {
			if c.NearTTL != "" {
				warn(unusedNear, append(at, "near_ttl")...)
			}
			if c.NearSize != "" {
				warn(unusedNear, append(at, "near_size")...)
			}
		}
		for parent := parentOf(p.Category); parent != ""; parent = parentOf(parent) {
			if c := e.raw.Categories[parent]; c.Encrypt != nil && *c.Encrypt && !p.Encrypt {
				warn(fmt.Sprintf("is not encrypted: it has a rule of its own, so that of %s does not hold for it", parent), at...)
				break
			}
		}
	}
	if shared != "" && len(process) > 0 && !e.InMemory {
		warn(fmt.Sprintf("%s in memory: each process sees only its own, although %s is shared between processes", livesIn(process), shared), "categories")
	}
	if len(encrypted) > 0 && e.raw.Encryption.Current == "" {
		warn(fmt.Sprintf("%s encrypt, and encryption names no current key: the program must bring keys of its own", strings.Join(slices.Compact(encrypted), ", ")), "categories")
	}
}

// missed answers the built-in category that a listed name is one or two letters
// off, unless that is listed as well.
func (e *Effective) missed(listed string) string {
	if _, ok := e.raw.Categories[listed]; !ok {
		return ""
	}
	best := ""
	for _, b := range builtins() {
		if b.name == listed {
			return ""
		}
		if _, ok := e.raw.Categories[b.name]; !ok && nearest.Distance(listed, b.name, 3) < 3 {
			best = b.name
		}
	}
	return best
}

func livesIn(names []string) string {
	if len(names) == 1 {
		return names[0] + " lives"
	}
	return strings.Join(names, ", ") + " live"
}
