package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// The values of Synchronous.
const (
	// Full syncs the log at every commit: what was acknowledged survives a power
	// cut.
	Full = "full"
	// Normal syncs at checkpoints only: a power cut may take the last commits
	// with it, and never leaves the database inconsistent.
	Normal = "normal"
)

// Options are the settings of the driver in a configuration.
type Options struct {
	Path        string // of the file; default sage.db in the data directory
	Synchronous string // full (default) or normal
}

// Config says what to open. The zero value is ~/.sage/sage.db.
type Config struct {
	// Path of the file. A leading ~ is the home directory, missing directories
	// are made. Memory is a private store in memory, gone at Close.
	Path string
	// Synchronous is Full, the default, or Normal.
	Synchronous string
	Log         *slog.Logger // default: slog.Default
	Clock       tiers.Clock  // default: tiers.SystemClock
}

// Driver is how a configuration opens a SQLite database.
func Driver() tiers.Driver {
	return tiers.Driver{
		Tier:    "database",
		Name:    "sqlite",
		Options: &Options{Synchronous: Full},
		Copies:  Copies(),
		Open: func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			o := Options{Synchronous: Full}
			if env.Options != nil {
				if err := env.Options(&o); err != nil {
					return nil, err
				}
			}
			path := o.Path
			if path == "" && env.Dir != "" {
				path = filepath.Join(env.Dir, "sage.db")
			}
			return Open(ctx, Config{Path: path, Synchronous: o.Synchronous, Log: env.Log, Clock: env.Clock})
		},
	}
}

// Limits of the connections.
const (
	readers      = 8
	readerCache  = 4 << 10   // KiB for a connection, for what the mapping does not serve
	readerMapped = 256 << 20 // bytes of the file that a connection reads without copying
	writerCache  = 32 << 10  // KiB
	maxValue     = 512 << 20
	// patience is how long Open waits for a migration, or for the processes that
	// stand in the way of one.
	patience = 5 * time.Second
)

// Tier is an open database. It is safe for concurrent use.
type Tier struct {
	path     string // absolute, or Memory
	place    string // for messages
	sync     string
	maxValue int64
	clock    tiers.Clock
	log      *slog.Logger

	file        os.FileInfo // as it was opened; nil for a database in memory
	presence    *presence
	own         *conn // of the writer; nil for a database in memory
	pool        *pool
	snapshots   *snapshots
	writer      *writer
	checkpoints *checkpointer
	watch       watch
	waiting     waiting
	locks       sync.Map // names that are taken, of a store in memory

	hits, misses, failures, expired atomic.Int64

	closing    sync.Once
	closed     chan struct{} // closed when everything has ended
	closeErr   error         // read after that
	stop       context.CancelFunc
	background *conn // of the checkpointer; nil for a database in memory
}

// Open opens the database, and makes it when it is not there. It refuses, before
// anything is changed, a file that is no database, one of another application, one
// with a newer schema (tiers.ErrSchema), and a network file system. An older
// schema is migrated in one transaction, for which no other process may have the
// file open.
func Open(ctx context.Context, c Config) (*Tier, error) {
	t, err := open(ctx, c, surroundings{network: networkKind, patience: patience})
	if err != nil {
		return nil, tiers.Fail("open", tierName, tiers.Key{}, err)
	}
	return t, nil
}

// surroundings are what a test may want to be different.
type surroundings struct {
	network  func(dir string) (kind string, err error)
	patience time.Duration
}

func open(ctx context.Context, c Config, around surroundings) (_ *Tier, err error) {
	if err := engine.Over(ctx); err != nil {
		return nil, err
	}
	t := &Tier{
		sync:     cmp.Or(c.Synchronous, Full),
		maxValue: maxValue,
		clock:    c.Clock,
		log:      c.Log,
		closed:   make(chan struct{}),
	}
	if t.clock == nil {
		t.clock = tiers.SystemClock()
	}
	if t.log == nil {
		t.log = slog.Default()
	}
	if t.sync != Full && t.sync != Normal {
		return nil, fmt.Errorf("synchronous is %q: it must be %q or %q", t.sync, Full, Normal)
	}
	if t.path, err = expand(c.Path); err != nil {
		return nil, err
	}
	t.place = t.path
	if t.path == Memory {
		t.place = "memory"
		return t, t.openMemory(ctx)
	}
	if err := checkPlace(t.path, around.network); err != nil {
		return nil, err
	}
	if err := create(t.path); err != nil {
		return nil, t.plain(err)
	}
	if err := t.openFile(ctx, around.patience); err != nil {
		err = t.plain(err)
		if also := t.abandon(); also != nil { // alone, the first one's hint is found
			err = errors.Join(err, also)
		}
		return nil, err
	}
	return t, nil
}

// openMemory makes a store of one connection, which everybody shares.
func (t *Tier) openMemory(ctx context.Context) error {
	c, err := connect(ctx, dsn(Memory, false, pragma{"trusted_schema", "0"}, pragma{"temp_store", "memory"}))
	if err != nil {
		return err
	}
	if err := migrate(ctx, c); err != nil {
		return errors.Join(err, c.close())
	}
	t.pool = newPool(1, nil)
	<-t.pool.spare
	t.pool.put(c)
	t.snapshots = newSnapshots(t.copyMemory)
	t.start(ctx, nil)
	return nil
}

func (t *Tier) openFile(ctx context.Context, patience time.Duration) (err error) {
	if t.presence, err = openPresence(t.path); err != nil {
		return err
	}
	if err := t.settleSchema(ctx, patience); err != nil {
		return err
	}
	if t.own == nil {
		if t.own, err = t.connectWriter(ctx); err != nil {
			return err
		}
	}
	if t.background, err = t.connectWriter(ctx); err != nil {
		return err
	}
	if t.file, err = os.Stat(t.path); err != nil {
		return err
	}
	tn, err := openTurn(t.path)
	if err != nil {
		return err
	}
	t.pool = newPool(readers, t.connectReader)
	t.snapshots = newSnapshots(t.connectReader)
	t.start(ctx, tn)
	return nil
}

// settleSchema looks at the file under the shared lock, and migrates it under the
// exclusive one where that is needed. Of several processes that open a new file
// at once, one migrates; the others wait at a lock of its own for that, so that
// none stands in its way with a shared lock, and find it done.
func (t *Tier) settleSchema(ctx context.Context, patience time.Duration) (err error) {
	if current, _, err := t.share(ctx); current || err != nil {
		return err
	}
	migration, err := openLock(t.path + ".migration")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, migration.close()) }()
	if err := poll(ctx, nil, func() (bool, error) { return migration.try(true) }); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	why := ""
	err = poll(wait, nil, func() (bool, error) {
		current, held, err := t.share(ctx)
		if current || err != nil {
			return current, err
		}
		if !held {
			why = "is migrating or restoring it"
			return false, nil
		}
		if ok, err := t.presence.lock.try(true); !ok || err != nil {
			why = "has it open, and its schema must be migrated first"
			return false, err
		}
		if err := t.migrateFile(ctx); err != nil {
			return false, err
		}
		if err := t.presence.lock.unlock(); err != nil {
			return false, err
		}
		current, _, err = t.share(ctx)
		return current, err
	})
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return t.presence.refused(why)
	}
	return err
}

// share takes the shared lock and keeps it if the schema is current. held tells
// that nobody held the lock exclusively.
func (t *Tier) share(ctx context.Context) (current, held bool, err error) {
	if held, err = t.presence.lock.try(false); !held || err != nil {
		return false, held, err
	}
	schema, err := t.inspect(ctx)
	if err != nil {
		return false, true, err
	}
	if schema == schemaNow {
		return true, true, t.presence.pids.join()
	}
	return false, true, t.presence.lock.unlock()
}

// inspect looks at the file, again while another process is in the way.
func (t *Tier) inspect(ctx context.Context) (schema int64, err error) {
	err = poll(ctx, nil, func() (bool, error) {
		schema, err = inspect(ctx, t.path)
		if busy(err) {
			return false, nil
		}
		return err == nil, err
	})
	return schema, err
}

func (t *Tier) migrateFile(ctx context.Context) error {
	// Another process may have been first.
	if schema, err := t.inspect(ctx); err != nil || schema == schemaNow {
		return err
	}
	c, err := t.connectWriter(ctx)
	if err != nil {
		return err
	}
	return errors.Join(migrate(ctx, c), c.close())
}

// abandon closes what an Open that failed had opened already.
func (t *Tier) abandon() error {
	var errs []error
	for _, c := range []*conn{t.background, t.own} {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(append(errs, t.presence.close())...)
}

// connectWriter leaves temp_store alone: a large batch keeps what it replaces in
// a journal of its own until the next statement, and SQLite shortens one in
// memory in time proportional to its length.
func (t *Tier) connectWriter(ctx context.Context) (*conn, error) {
	return t.dial(ctx, dsn(t.path, false,
		pragma{"journal_mode", "wal"},
		pragma{"synchronous", t.sync},
		pragma{"wal_autocheckpoint", "0"},
		pragma{"journal_size_limit", strconv.Itoa(logLimit)},
		pragma{"cache_size", strconv.Itoa(-writerCache)},
		pragma{"trusted_schema", "0"},
	))
}

func (t *Tier) connectReader(ctx context.Context) (*conn, error) {
	return t.dial(ctx, dsn(t.path, false,
		pragma{"query_only", "1"},
		pragma{"synchronous", t.sync},
		pragma{"wal_autocheckpoint", "0"},
		pragma{"cache_size", strconv.Itoa(-readerCache)},
		pragma{"mmap_size", strconv.Itoa(readerMapped)},
		pragma{"trusted_schema", "0"},
		pragma{"temp_store", "memory"},
	))
}

// dial connects, again while another process is in the way.
func (t *Tier) dial(ctx context.Context, dsn string) (c *conn, err error) {
	err = poll(ctx, nil, func() (bool, error) {
		c, err = connect(ctx, dsn)
		if busy(err) {
			return false, nil
		}
		return err == nil, err
	})
	return c, err
}

// start starts the goroutines. They end at Close, not with the context of Open.
func (t *Tier) start(ctx context.Context, tn *turn) {
	// The writer's context never ends: it stops when it is closed and has nothing
	// left to do, and a statement under a context that may end costs a goroutine.
	ctx = context.WithoutCancel(ctx)
	t.writer = newWriter(t, tn)
	t.checkpoints = newCheckpointer(t)
	go t.writer.loop(ctx)
	if ctx, t.stop = context.WithCancel(ctx); t.background != nil {
		go t.checkpoints.loop(ctx, t.background)
	} else {
		close(t.checkpoints.over)
	}
}

// borrowWriter lends the writer its connection.
func (t *Tier) borrowWriter(ctx context.Context) (c *conn, release func(), err error) {
	if t.own != nil {
		return t.own, func() {}, nil
	}
	if c, err = t.pool.get(ctx); err != nil {
		return nil, nil, err
	}
	return c, func() { t.pool.put(c) }, nil
}

// Close refuses new calls, does what is in the queue, waits for what is under way
// and closes the file. When the context ends first it answers its error, and the
// closing goes on. A second Close returns nil.
func (t *Tier) Close(ctx context.Context) error {
	first := false
	t.closing.Do(func() {
		first = true
		t.writer.close()
		t.pool.shut()
		t.snapshots.shut()
		go t.shutDown(context.WithoutCancel(ctx))
	})
	if !first {
		return nil
	}
	select {
	case <-t.closed:
		return t.fail("close", tiers.Key{}, t.closeErr)
	case <-ctx.Done():
		return t.fail("close", tiers.Key{}, context.Cause(ctx))
	}
}

func (t *Tier) shutDown(ctx context.Context) {
	defer close(t.closed)
	<-t.writer.over
	t.snapshots.endAll(ctx)
	<-t.snapshots.quiet
	<-t.pool.quiet
	t.stop()
	<-t.checkpoints.over
	errs := []error{t.watch.close(), t.pool.close(), t.snapshots.close()}
	for _, c := range []*conn{t.background, t.own} {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	errs = append(errs, t.writer.turn.close(), t.presence.close())
	t.closeErr = errors.Join(errs...)
}
