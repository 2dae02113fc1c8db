// Package sagestore is the root of a layered persistence manager for agent apps.
// It holds no code: this page says where things are.
//
// An app describes in one YAML file where each kind of data lives, and saves and
// loads by category. Each category has one home, a tier: memory, cache (Redis or
// a local directory), database (SQLite or PostgreSQL) or file (a directory that
// people can read). A save that returned nil can be loaded by everybody who shares
// the tier, until it expires or is deleted.
//
//	cfg, err := config.Load("sagestore.yaml")
//	m, err := manager.Open(ctx, cfg, all.Tiers())
//	defer m.Close(ctx)
//
//	prefs := manager.For[Preferences](m, "session.preferences")
//	err = prefs.Save(ctx, "user-42", p)
//	p, err = prefs.Load(ctx, "user-42")
//
// Where to go on:
//
//   - manager is the public door: collections, sessions, the life of a store
//   - agent, session, knowledge and learning are what agents are made of, on top
//     of manager
//   - backup makes, verifies and restores copies; backup/cloud opens buckets for it
//   - config reads the YAML file, or takes the same as Go values
//   - serializer holds the codecs: JSON, msgpack, gob and raw bytes
//   - tiers is the contract of a store and has every error; below it are the
//     stores, each usable alone, and tiertest, the suite for your own
//   - tiers/all and tiers/embedded list the drivers that a program links
//   - txn keeps work whole across tiers and over an outage
//   - sagetest helps with the tests of apps
//   - cmd/sagestore is the command line
//
// docs/ARCHITECTURE.md explains how it works and what each tier promises,
// docs/FORMAT.md gives the bytes on disk.
package sagestore
