package config

import (
	"path/filepath"
	"strings"
)

// Restored makes the configuration that of what a backup was restored to with a
// directory of its own: everything lies in its default place below dir. Places that
// the configuration names, Redis and PostgreSQL are left out, since they belong to
// the store that goes on; categories, codecs and keys stay.
func Restored(dir string) Option { return optionFunc(func(o *options) { o.restored = dir }) }

// liesBelow turns what the configuration places into defaults below dir.
func (c *Config) liesBelow(dir string) {
	c.DataDir = dir
	if abs, err := filepath.Abs(dir); err == nil && !isHome(dir) {
		c.DataDir = abs
	}
	c.Redis, c.Postgres = nil, nil
	c.Cache.Driver, c.Database.Driver = "file", "sqlite"
	c.DefaultStore = tierOfEngine(c.DefaultStore)
	for name, category := range c.Categories {
		category.Tier = tierOfEngine(category.Tier)
		c.Categories[name] = category
	}
	edit(c, func(l leaf) {
		if l.file && strings.HasPrefix(l.def, below) {
			l.value.SetZero()
		}
	})
}

// tierOfEngine answers the tier whose engine a word names, or the word.
func tierOfEngine(word string) string {
	switch word {
	case "redis":
		return "cache"
	case "sqlite", "postgres":
		return "database"
	}
	return word
}

// PlacedOutside answers the settings that name a place of the store outside of its
// data directory, as path and place, in the order of the settings.
func (e *Effective) PlacedOutside() (placed []string) {
	if e.InMemory {
		return nil
	}
	walk(e.cfg, func(l leaf) {
		p := l.value.String()
		if !l.file || !strings.HasPrefix(l.def, below) || l.at[0] == "backup" || !isPath(p) {
			return
		}
		if rel, err := filepath.Rel(e.DataDir, p); err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			placed = append(placed, l.path+" names "+p)
		}
	})
	return placed
}
