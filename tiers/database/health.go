package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// checkTime bounds the integrity check of Diagnose.
const checkTime = 2 * time.Second

const countAll = `SELECT count(*), total(octet_length(key) + octet_length(value)) FROM records WHERE expires = 0 OR expires > ?`

// Describe implements tiers.Describer.
func (t *Tier) Describe() tiers.Info {
	i := tiers.Info{Driver: "sqlite", Place: t.place, Scope: tiers.ScopeHost, Durable: true, MaxValue: t.maxValue}
	if t.path == Memory {
		i.Scope, i.Durable = tiers.ScopeProcess, false
	}
	return i
}

// Ping implements tiers.Pinger. A store that takes no more writes is no healthy
// one, though it still answers loads.
func (t *Tier) Ping(ctx context.Context) error {
	err := t.read(ctx, func(c *conn) error {
		_, err := c.number(context.WithoutCancel(ctx), "SELECT value FROM counters WHERE name = 'version'")
		return err
	})
	if err == nil {
		err = t.writer.poisoned()
	}
	if err == nil {
		err = t.inPlace()
	}
	if err != nil {
		return t.failed("ping", tiers.Key{}, err)
	}
	return nil
}

// inPlace answers what is wrong when the path leads to another file than the one that
// is open, or to none: the open one takes writes as before, and is gone when it is closed.
func (t *Tier) inPlace() error {
	if t.file == nil {
		return nil
	}
	there, err := os.Stat(t.path)
	if err == nil && os.SameFile(t.file, there) {
		return nil
	}
	return tiers.Hint(fmt.Errorf("%w: %s is not the file that was opened", tiers.ErrUnavailable, t.place),
		"what is saved now is gone when the store is closed: see who removed or replaced the file, then open the store again")
}

// Stats implements tiers.Statser. It reads all records' sizes.
func (t *Tier) Stats(ctx context.Context) (tiers.Stats, error) {
	s := tiers.Stats{Hits: t.hits.Load(), Misses: t.misses.Load(), Errors: t.failures.Load(), Expired: t.expired.Load()}
	err := t.read(ctx, func(c *conn) (err error) {
		s.Entries, s.Bytes, err = c.sums(ctx, countAll, t.clock.Now().UnixMicro())
		return err
	})
	if err != nil {
		return tiers.Stats{}, t.failed("stats", tiers.Key{}, err)
	}
	return s, nil
}

// Diagnose implements tiers.Diagnoser.
func (t *Tier) Diagnose(ctx context.Context) []tiers.Finding {
	var fs []tiers.Finding
	err := t.read(ctx, func(c *conn) error {
		fs = []tiers.Finding{t.writes()}
		for _, find := range []func(context.Context, *conn) (tiers.Finding, error){t.findVersion, t.findSchema, t.findLog, t.findDamage} {
			f, err := find(ctx, c)
			if err != nil {
				return err
			}
			fs = append(fs, f)
		}
		return nil
	})
	if err != nil {
		fs = append(fs, tiers.Finding{Subject: "database", Message: t.fail("diagnose", tiers.Key{}, err).Error(), Hint: "check that " + t.place + " can be read"})
	}
	if t.path == Memory {
		return fs
	}
	return append(fs, t.findRoom(), t.findMode())
}

func (t *Tier) writes() tiers.Finding {
	if err := t.writer.poisoned(); err != nil {
		return tiers.Finding{Subject: "writes", Message: err.Error(), Hint: "close the store and open it again"}
	}
	f := tiers.Finding{OK: true, Subject: "writes", Message: "synchronous is " + t.sync}
	if t.sync == Normal && t.path != Memory {
		f.Message += ": a power cut may take the last saves with it"
	}
	return f
}

func (t *Tier) findVersion(ctx context.Context, c *conn) (tiers.Finding, error) {
	row, err := c.first(ctx, "SELECT sqlite_version()")
	if err != nil || row == nil {
		return tiers.Finding{}, err
	}
	return tiers.Finding{OK: true, Subject: "SQLite", Message: fmt.Sprintf("version %v, %s", row[0], t.place)}, nil
}

func (t *Tier) findSchema(ctx context.Context, c *conn) (tiers.Finding, error) {
	n, err := c.number(ctx, "PRAGMA user_version")
	f := tiers.Finding{OK: n == schemaNow, Subject: "schema", Message: fmt.Sprintf("schema %d of %d", n, schemaNow)}
	if !f.OK {
		f.Hint = "another version of sagestore has migrated the database: restart with that one"
	}
	return f, err
}

func (t *Tier) findLog(_ context.Context, _ *conn) (tiers.Finding, error) {
	f := tiers.Finding{OK: true, Subject: "write-ahead log", Message: "empty"}
	if t.path == Memory {
		f.Message = "none, in memory"
		return f, nil
	}
	// Stat only: the file is never opened by anything but SQLite.
	st, err := os.Stat(t.path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.Message = fmt.Sprintf("%.1f MiB", float64(st.Size())/(1<<20))
	if st.Size() > 4*logLimit {
		f.OK = false
		f.Hint = "a reader keeps the log from beginning anew: end what holds a transaction open on " + t.place
	}
	return f, nil
}

func (t *Tier) findDamage(ctx context.Context, c *conn) (tiers.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	f := tiers.Finding{OK: true, Subject: "integrity"}
	row, err := c.first(ctx, "PRAGMA quick_check(1)")
	switch {
	case err != nil && ctx.Err() != nil:
		f.Message = fmt.Sprintf("no damage found in %v; the database is too large to check all of it in that time", checkTime)
		return f, nil
	case err != nil:
		return f, err
	case row == nil:
		return f, errors.New("the integrity check answered nothing")
	}
	f.Message = fmt.Sprint(row[0])
	if f.Message != "ok" {
		f.OK = false
		f.Hint = "restore a backup"
	}
	return f, nil
}

// leastRoom is below how many free bytes a disk is called full.
const leastRoom = 100 << 20

func (t *Tier) findRoom() tiers.Finding {
	free, size, err := room(filepath.Dir(t.path))
	f := tiers.Finding{OK: true, Subject: "disk room", Message: fmt.Sprintf("%d MiB free of %d MiB", free>>20, size>>20)}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		f.Message = "not known on this system"
	case err != nil:
		f.OK, f.Message, f.Hint = false, err.Error(), "check the directory of "+t.place
	case free < leastRoom:
		f.OK, f.Hint = false, "make room on the disk that holds "+t.place
	}
	return f
}

func (t *Tier) findMode() tiers.Finding {
	f := tiers.Finding{OK: true, Subject: "file mode"}
	st, err := os.Stat(t.path)
	if err != nil {
		return tiers.Finding{Subject: f.Subject, Message: err.Error(), Hint: "check the directory of " + t.place}
	}
	f.Message = fmt.Sprintf("%04o", st.Mode().Perm())
	if st.Mode().Perm()&0o077 != 0 {
		f.OK, f.Hint = false, "others may read it: chmod 600 "+t.place+" while no process has it open"
	}
	return f
}
