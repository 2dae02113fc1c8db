//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/all"
)

// store says where a store is.
type store struct {
	Dir      string
	Redis    string // address; empty: the cache is kept in files
	Prefix   string
	Postgres string // URL; empty: the database is SQLite
	Schema   string // of PostgreSQL
	Normal   bool   // SQLite with synchronous: normal
	Agents   string // tiers of the categories of agents; empty: there are none
}

// spec is what a process of the torture is told to do.
type spec struct {
	Store   store
	Log     string
	Name    string // of the process, unique in its round
	Slot    int    // which of the workers that run at a time
	Gen     int
	Callers int
	Seed    uint64
	Ops     int // of each caller; 0: until it is killed
	Point   string
	Nth     int
	Lazy    bool
	Plain   bool   // saves and deletes only, no transactions
	Limit   int64  // bytes that a file may have; 0: any
	Asks    string // file with ids of transactions, for recovery
	Answers string // file for the outcomes
}

// accounts is how many each durable tier has.
const (
	accounts = 3
	balance  = 1000
)

func durable() []string { return []string{"database", "file", "cache"} }

func (s store) places() check.Places {
	p := check.Places{Database: filepath.Join(s.Dir, "sage.db"), Files: filepath.Join(s.Dir, "files"), Redis: s.Redis, Prefix: s.Prefix, Postgres: s.Postgres, Schema: s.Schema}
	if s.Redis == "" {
		p.Cache = filepath.Join(s.Dir, "cache")
	}
	return p
}

func (s store) config() *config.Config {
	cfg := config.Default()
	cfg.DataDir = s.Dir
	cfg.SQLite.Path = filepath.Join(s.Dir, "sage.db")
	cfg.File.BasePath = filepath.Join(s.Dir, "files")
	cfg.Cache.Path = filepath.Join(s.Dir, "cache")
	if s.Normal {
		cfg.SQLite.Synchronous = "normal"
	}
	if s.Redis != "" {
		cfg.Redis = &config.Redis{URL: config.Secret("redis://" + s.Redis), Prefix: s.Prefix, Timeout: "300ms", ProbeInterval: "20ms"}
	}
	if s.Postgres != "" {
		cfg.Database.Driver = "postgres"
		cfg.Postgres = &config.Postgres{URL: config.Secret(s.Postgres), Schema: s.Schema}
	}
	cfg.Categories = map[string]config.Category{}
	for _, tier := range append(durable(), "memory") {
		for _, class := range []string{"bank", "own", "pool"} {
			cfg.Categories[class+"."+tier] = config.Category{Tier: tier, TTL: config.Never}
		}
	}
	names := []string{"agent.state", "agent.conversations", "agent.checkpoints", "agent.fields", "session.state", "session.events"}
	for i, tier := range strings.Fields(s.Agents) {
		cfg.Categories[names[i]] = config.Category{Tier: tier, TTL: config.Never}
	}
	return cfg
}

// open opens the store, with points around its tiers.
func (s store) open(ctx context.Context, p *points, opened func(string, tiers.Tier)) (*manager.Manager, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	return manager.Open(ctx, s.config(), p.tap(all.Tiers(), opened))
}

func readSpec(arg string) (s spec, err error) {
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return s, fmt.Errorf("the worker does not understand what it is told: %w", err)
	}
	return s, nil
}

// collections are the keys of the torture, by class and tier.
type collections map[string]*manager.Collection[check.Value]

func collectionsOf(s manager.Scope) collections {
	out := collections{}
	for _, tier := range append(durable(), "memory") {
		for _, class := range []string{"bank", "own", "pool"} {
			out[class+"."+tier] = manager.For[check.Value](s, class+"."+tier)
		}
	}
	return out
}

func at(class, tier, key string) string { return tier + "/" + class + "." + tier + "/" + key }
