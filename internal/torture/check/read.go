package check

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver
)

// Places says where a store is.
type Places struct {
	Database string // path of sage.db
	Postgres string // URL of the PostgreSQL database that takes its place; empty: none does
	Schema   string // in that
	Files    string // directory of the file tier
	Cache    string // directory of the file cache; empty: the cache is in Redis
	Redis    string // address of Redis; empty: the cache is in Cache
	Prefix   string // of the keys in Redis
	Unsynced bool   // the power went: files of the cache, which does not sync, may be damaged
}

// Found is what was found in a store.
type Found struct {
	State   State
	Faults  []Fault         // whatever is wrong already
	Commits map[string]bool // ids of transactions that the database remembers as committed
	Agents  Agents
}

// Read reads a store that nobody has open.
func Read(ctx context.Context, p Places) (Found, error) {
	f := Found{State: State{}, Commits: map[string]bool{}}
	read := f.readDatabase
	if p.Postgres != "" {
		read = f.readPostgres
	}
	epoch, err := read(ctx, p)
	if err != nil {
		return f, err
	}
	if err := f.readTree(p.Files, "file", ".json", false); err != nil {
		return f, err
	}
	if p.Redis != "" {
		err = f.readRedis(ctx, p, epoch)
	} else {
		err = f.readTree(p.Cache, "cache", ".entry", p.Unsynced)
	}
	return f, err
}

func (f *Found) put(at string, version uint64, value []byte) {
	if _, key, _ := strings.Cut(at, "/"); strings.HasPrefix(key, "agent.") || strings.HasPrefix(key, "session.") {
		if err := f.Agents.put(key, value); err != nil {
			f.fault("corrupt", "%s is no JSON: %v", at, err)
		}
		return
	}
	if fault := f.State.put(at, version, value); fault != nil {
		f.Faults = append(f.Faults, *fault)
	}
}

func (f *Found) fault(kind, format string, args ...any) {
	f.Faults = append(f.Faults, faultf(kind, format, args...))
}

// guard ends the tiers of rows that are no writes that wait.
const guard = ".reached"

func (f *Found) readDatabase(ctx context.Context, p Places) (epoch string, err error) {
	db, err := sql.Open("sqlite", "file:"+p.Database+"?mode=rw")
	if err != nil {
		return "", err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	var ok string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&ok); err != nil {
		return "", fmt.Errorf("integrity_check: %w", err)
	}
	if ok != "ok" {
		f.fault("corrupt", "PRAGMA integrity_check says %s", ok)
	}
	err = each(ctx, db, "SELECT category, key, version, value FROM records WHERE namespace = ''", func(rows *sql.Rows) error {
		var category, key string
		var version uint64
		var value []byte
		if err := rows.Scan(&category, &key, &version, &value); err != nil {
			return err
		}
		f.put("database/"+category+"/"+key, version, value)
		return nil
	})
	if err != nil {
		return "", err
	}
	if err := f.readIndex(ctx, db); err != nil {
		return "", err
	}
	err = each(ctx, db, "SELECT tier, category, key FROM journal WHERE tier NOT LIKE '%"+guard+"'", func(rows *sql.Rows) error {
		var tier, category, key string
		err := rows.Scan(&tier, &category, &key)
		f.fault("journal", "a row of %s/%s/%s was left behind", tier, category, key)
		return err
	})
	if err != nil {
		return "", err
	}
	err = each(ctx, db, "SELECT id FROM commits", func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		f.Commits[id] = true
		return err
	})
	if err != nil {
		return "", err
	}
	var raw []byte
	err = db.QueryRowContext(ctx, "SELECT value FROM facts WHERE name = 'epoch'").Scan(&raw)
	return string(raw), err
}

func each(ctx context.Context, db *sql.DB, query string, row func(*sql.Rows) error) (err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readIndex reads which entries the full-text index has.
func (f *Found) readIndex(ctx context.Context, db *sql.DB) error {
	f.Agents.Placed, f.Agents.Index = map[string]int64{}, map[string][]int64{}
	var schema int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&schema); err != nil {
		return err
	}
	place := "rowid"
	if schema >= 6 {
		place = "flags >> 8"
	}
	err := each(ctx, db, "SELECT category, key, "+place+" FROM records WHERE flags >= 256", func(rows *sql.Rows) error {
		var category, key string
		var at int64
		err := rows.Scan(&category, &key, &at)
		f.Agents.Placed[category+"/"+key] = at
		return err
	})
	for _, table := range []string{"search_words", "search_parts"} {
		if err != nil {
			return err
		}
		f.Agents.Index[table] = nil
		err = each(ctx, db, "SELECT id FROM "+table+"_docsize", func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			f.Agents.Index[table] = append(f.Agents.Index[table], id)
			return err
		})
	}
	return err
}

// readTree reads the records of a file tree. The keys of the workers need no
// escaping, but for capitals, which they do not have.
func (f *Found) readTree(base, tier, ending string, unsynced bool) error {
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && name == ".lock":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		case strings.HasPrefix(name, ".tmp-"):
			if !unsynced {
				f.fault("leftover", "%s/%s was left behind by a writer", tier, rel)
			}
			return nil
		case strings.Contains(name, ".edited-"):
			f.fault("leftover", "%s/%s was kept as the edit of a person", tier, rel)
			return nil
		case strings.HasPrefix(name, "."):
			return nil
		case !strings.HasSuffix(name, ending):
			f.fault("leftover", "%s/%s is no record", tier, rel)
			return nil
		}
		// Of what a name escapes, keys have nothing here but the percent sign of notes.
		at := tier + "/" + strings.ReplaceAll(strings.TrimSuffix(filepath.ToSlash(rel), ending), "%25", "%")
		return f.readFile(path, at, tier == "cache", unsynced)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever saved there
	}
	return err
}

func (f *Found) readFile(path, at string, entry, unsynced bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path) //nolint:gosec // below the directory of the store
	if err != nil {
		return err
	}
	if !entry {
		f.put(at, uint64(info.ModTime().UnixMicro()), b)
		return nil
	}
	const header = 128
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	be := binary.BigEndian
	damage := f.fault
	if unsynced {
		damage = func(string, string, ...any) {} // which the store finds by the same sums
	}
	switch {
	case len(strings.Trim(string(b[:min(len(b), header)]), "\x00")) == 0:
		return nil // nothing of the file had reached the disk: it counts as absent
	case len(b) < header || string(b[:4]) != "SGC1" || be.Uint32(b[4:]) != crc32.Checksum(b[8:header], castagnoli):
		damage("corrupt", "%s has a damaged header", at)
	case be.Uint64(b[48:]) != uint64(len(b[header:])) || be.Uint32(b[8:]) != crc32.Checksum(b[header:], castagnoli):
		damage("corrupt", "%s has a damaged value", at)
	default:
		f.put(at, be.Uint64(b[16:]), b[header:])
	}
	return nil
}

func (f *Found) readRedis(ctx context.Context, p Places, epoch string) (err error) {
	c := goredis.NewClient(&goredis.Options{Addr: p.Redis, DisableIdentity: true})
	defer func() { err = errors.Join(err, c.Close()) }()
	spaces, err := c.SMembers(ctx, p.Prefix+":{"+epoch+"}:spaces").Result()
	if err != nil {
		return err
	}
	for _, space := range spaces {
		category := strings.TrimPrefix(space, ".") // no namespace
		bucket := p.Prefix + ":{" + epoch + "." + space + ".0}"
		names, err := c.ZRange(ctx, bucket, 0, -1).Result()
		if err != nil {
			return err
		}
		for _, name := range names {
			b, err := c.Get(ctx, bucket+":"+name).Bytes()
			if errors.Is(err, goredis.Nil) {
				f.fault("index", "cache/%s/%s is in the index and is not there", category, name)
				continue
			}
			if err != nil {
				return err
			}
			f.putRedis(category, name, b)
		}
	}
	return nil
}

// putRedis takes apart a stored value: magic, version and times twice, checksum,
// flags, schema, codec, value.
func (f *Found) putRedis(category, name string, b []byte) {
	at := "cache/" + category + "/" + name
	const sumAt, head = 66, 70
	if len(b) < head+6 || b[0] != 's' || string(b[2:34]) != string(b[34:sumAt]) {
		f.fault("corrupt", "%s has a damaged head", at)
		return
	}
	body := b[head:]
	sum := crc32.Checksum([]byte("\x00"+category+"\x00"+name+"\x00"+string(body)), crc32.MakeTable(crc32.Castagnoli))
	codec := 6 + int(body[5])
	if sum != binary.BigEndian.Uint32(b[sumAt:]) || len(body) < codec {
		f.fault("corrupt", "%s has a damaged value", at)
		return
	}
	f.put(at, binary.BigEndian.Uint64(b[2:]), body[codec:])
}
