package postgres

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// Copies reads the copies that the Frozen of a tier writes. It needs no server.
func Copies() tiers.Copies { return copies{} }

type copies struct{}

// Format implements tiers.Copies.
func (copies) Format() string { return tiers.FormatPostgres }

// Beside implements tiers.Copies.
func (copies) Beside() []string { return nil }

// Seize implements tiers.Copies. A copy is no store yet, so nobody has it open.
func (copies) Seize(context.Context, string) (release func() error, err error) {
	return func() error { return nil }, nil
}

// OpenCopy implements tiers.Copies.
func (copies) OpenCopy(_ context.Context, path string) (tiers.Copy, error) {
	c, err := openCopy(path)
	if err != nil {
		return nil, tiers.Fail("open copy", tierName, tiers.Key{}, err)
	}
	return c, nil
}

func openCopy(path string) (*copyFile, error) {
	f, err := os.Open(path) //nolint:gosec // the caller's own
	if err != nil {
		return nil, err
	}
	c := &copyFile{path: path, f: f, spaces: map[tiers.Space]int64{}}
	if c.mark, err = newCopyReader(f, 0).head(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

// copyFile is a copy that is open for reading.
type copyFile struct {
	path string
	f    *os.File
	mark mark

	mu      sync.Mutex
	counted bool
	content tiers.Content
	facts   map[string]string
	spaces  map[tiers.Space]int64 // where the records of a space begin
}

func (c *copyFile) reader(at int64) *copyReader {
	return newCopyReader(bufio.NewReaderSize(io.NewSectionReader(c.f, at, 1<<62-at), 1<<20), at)
}

// walk goes through all of it, in order.
func (c *copyFile) walk(ctx context.Context, visit func(t *copyTable, at int64, line []byte) error) error {
	r := c.reader(0)
	if _, err := r.head(); err != nil {
		return err
	}
	all := copied()
	for i := range all {
		n := 0
		err := r.table(&all[i], func(at int64, line []byte) error {
			if n++; n%1024 == 0 {
				if err := engine.Over(ctx); err != nil {
					return err
				}
			}
			return visit(&all[i], at, line)
		})
		if err != nil {
			return err
		}
	}
	return r.end()
}

// Check implements tiers.Copy: every row has to be one that the tables take, and the
// records have to be in order, each key once.
func (c *copyFile) Check(ctx context.Context) error {
	var last tiers.Key
	first := true
	err := c.walk(ctx, func(t *copyTable, _ int64, line []byte) error {
		row, err := t.parse(line)
		if err != nil || t.name != "records" {
			return err
		}
		rec, err := row.record()
		if err != nil {
			return err
		}
		if row.numbers[1]&isText != 0 && !json.Valid(rec.Value) {
			return fmt.Errorf("%w: the value of key %q is no JSON", tiers.ErrCorrupt, rec.Name)
		}
		if !first && compareKeys(last, rec.Key) >= 0 {
			return fmt.Errorf("%w: key %q is not in order", tiers.ErrCorrupt, rec.Name)
		}
		first, last = false, rec.Key
		return nil
	})
	return tiers.Fail("check", tierName, tiers.Key{}, err)
}

func compareKeys(a, b tiers.Key) int {
	return slices.Compare([]string{a.Namespace, a.Category, a.Name}, []string{b.Namespace, b.Category, b.Name})
}

// count goes through the copy once.
func (c *copyFile) count(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counted {
		return nil
	}
	content := tiers.Content{
		Format: tiers.FormatPostgres, Size: -1, Schema: schemaNow, Sequence: uint64(c.mark.sequence), Version: version(c.mark.version), //nolint:gosec // checked
		Rows: map[string]int64{},
	}
	for _, name := range countedTables() {
		content.Rows[name] = 0
	}
	facts, spaces := map[string]string{}, map[tiers.Space]int64{}
	err := c.walk(ctx, func(t *copyTable, at int64, line []byte) error {
		if _, counted := content.Rows[t.name]; counted {
			content.Rows[t.name]++
		}
		if t.name != "records" && t.name != "facts" {
			return nil
		}
		row, err := t.parse(line)
		if err != nil {
			return err
		}
		if t.name == "facts" {
			facts[row.text[0]] = string(row.bytes)
			return nil
		}
		s := tiers.Space{Namespace: row.text[0], Category: row.text[1]}
		if _, known := spaces[s]; !known {
			spaces[s] = at
			content.Records = append(content.Records, tiers.SpaceCount{Space: s})
		}
		n := &content.Records[len(content.Records)-1]
		if n.Space != s {
			return fmt.Errorf("%w: the records of category %q are not together", tiers.ErrCorrupt, s.Category)
		}
		n.Records++
		return nil
	})
	if err == nil {
		c.content, c.facts, c.spaces, c.counted = content, facts, spaces, true
	}
	return err
}

// Content implements tiers.Copy.
func (c *copyFile) Content(ctx context.Context, facts ...string) (tiers.Content, error) {
	if err := c.count(ctx); err != nil {
		return tiers.Content{}, tiers.Fail("read copy", tierName, tiers.Key{}, err)
	}
	content := c.content
	content.Records, content.Rows, content.Facts = slices.Clone(c.content.Records), maps.Clone(c.content.Rows), map[string]string{}
	for _, name := range facts {
		if value, ok := c.facts[name]; ok {
			content.Facts[name] = value
		}
	}
	return content, nil
}

// errDone ends a walk.
var errDone = errors.New("the space is over")

// Records implements tiers.Copy.
func (c *copyFile) Records(ctx context.Context, s tiers.Space) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		k := tiers.Key{Namespace: s.Namespace, Category: s.Category}
		err := c.count(ctx)
		at, ok := c.spaces[s]
		if err == nil && !ok {
			return
		}
		if err == nil {
			err = c.records(ctx, s, at, yield)
		}
		if err != nil && !errors.Is(err, errDone) {
			yield(tiers.Record{}, tiers.Fail("read copy", tierName, k, err))
		}
	}
}

func (c *copyFile) records(ctx context.Context, s tiers.Space, at int64, yield func(tiers.Record, error) bool) error {
	r, table := c.reader(at), &copied()[0]
	for {
		if err := engine.Over(ctx); err != nil {
			return err
		}
		line, err := r.next()
		if err != nil || string(line) == endOfTable {
			return err
		}
		row, err := table.parse(line)
		if err != nil {
			return err
		}
		if row.text[0] != s.Namespace || row.text[1] != s.Category {
			return nil
		}
		rec, err := row.record()
		if err != nil {
			rec = tiers.Record{Key: tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: row.text[2]}}
			err = tiers.Fail("read copy", tierName, rec.Key, err)
		}
		if !yield(rec, err) {
			return errDone
		}
	}
}

// Close implements tiers.Copy.
func (c *copyFile) Close() error { return tiers.Fail("close copy", tierName, tiers.Key{}, c.f.Close()) }

// Adopt implements tiers.Copies: it writes the copy anew with other facts.
func (copies) Adopt(ctx context.Context, path string, facts map[string]string) error {
	return tiers.Fail("adopt", tierName, tiers.Key{}, adopt(ctx, path, facts))
}

func adopt(ctx context.Context, path string, facts map[string]string) (err error) {
	c, err := openCopy(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	beside := path + "-journal"                                                // an ending that whoever restores tidies up
	out, err := os.OpenFile(beside, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // beside the caller's own
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(beside))
		}
	}()
	if err = errors.Join(c.withFacts(ctx, out, facts), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(beside, path)
}

func (c *copyFile) withFacts(ctx context.Context, out io.Writer, facts map[string]string) error {
	w := bufio.NewWriterSize(out, 1<<20)
	_, _ = w.WriteString(headOf(c.mark)) // the error comes with Flush
	names := slices.Sorted(maps.Keys(facts))
	r := c.reader(0)
	if _, err := r.head(); err != nil {
		return err
	}
	all := copied()
	for i := range all {
		_, _ = w.WriteString(all[i].begin())
		err := r.table(&all[i], func(_ int64, line []byte) error {
			if err := engine.Over(ctx); err != nil {
				return err
			}
			if all[i].name == "facts" {
				row, err := all[i].parse(line)
				if err != nil {
					return err
				}
				if _, replaced := facts[row.text[0]]; replaced {
					return nil
				}
			}
			_, err := w.Write(append(line, '\n'))
			return err
		})
		if err != nil {
			return err
		}
		if all[i].name == "facts" {
			for _, name := range names {
				_, _ = w.WriteString(escape(name) + "\t\\\\x" + hex.EncodeToString([]byte(facts[name])) + "\n")
			}
		}
		_, _ = w.WriteString(endOfTable + "\n")
	}
	if err := r.end(); err != nil {
		return err
	}
	_, _ = w.WriteString(endOfCopy + "\n")
	return w.Flush()
}
