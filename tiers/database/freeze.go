package database

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Freezer = (*Tier)(nil)

const (
	// readPages answers consecutive pages of the file as the connection's
	// transaction sees them. A page is looked for by its number: a range would scan
	// all pages from the first one.
	readPages = `WITH RECURSIVE wanted (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM wanted WHERE n < ?2)
		SELECT p.data FROM wanted CROSS JOIN sqlite_dbpage AS p WHERE p.pgno = wanted.n`
	// copyPages is how many are read at a time. Between two reads the view may be
	// closed, and whoever waits for a processor has a turn.
	copyPages = 32
)

// frozen is a snapshot that was opened while nobody could commit.
type frozen struct {
	*snapshot
	held time.Duration

	counted tiers.Content // what Content has answered; it can't change
	asked   []string      // for the facts of which names; nil: it was not asked yet
}

// Freeze implements tiers.Freezer. Between processes it waits in the line of the
// writers. It needs the place of a snapshot, and of a store in memory it makes a
// copy there.
func (t *Tier) Freeze(ctx context.Context, during func(context.Context) error) (tiers.Frozen, error) {
	f, err := t.freeze(ctx, during)
	if err != nil {
		return nil, t.failed("freeze", tiers.Key{}, err)
	}
	return f, nil
}

func (t *Tier) freeze(ctx context.Context, during func(context.Context) error) (_ *frozen, err error) {
	if during == nil {
		during = func(context.Context) error { return nil }
	}
	f := &frozen{}
	if t.path == Memory {
		f.snapshot, err = t.snapshotBy(ctx, func(ctx context.Context) (*conn, error) {
			var copied *conn
			err := t.read(ctx, func(c *conn) (err error) { // the writer has no other connection
				begun := t.clock.Now()
				if err = during(ctx); err == nil {
					copied, err = c.copied()
				}
				f.held = t.clock.Now().Sub(begun)
				return err
			})
			return copied, err
		}, beginReading)
		return f, err
	}
	// A lock of its own: to this process's writer it is one more process.
	tn, err := openTurn(t.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tn.close()) }()
	f.snapshot, err = t.snapshotBy(ctx, t.snapshots.open, func(ctx context.Context, c *conn) error {
		// What a new connection does first is done before anybody waits for it.
		// All of the file is going to be read, and is not to be memory of this process.
		if _, err := c.exec(ctx, "PRAGMA mmap_size = 0"); err != nil {
			return err
		}
		if err := warm(ctx, c); err != nil {
			return err
		}
		if err := tn.take(ctx, nil); err != nil {
			return err
		}
		begun := t.clock.Now()
		err := beginReading(ctx, c)
		if err == nil {
			err = during(ctx)
		}
		err = errors.Join(err, tn.give())
		f.held = t.clock.Now().Sub(begun)
		return err
	})
	return f, err
}

func warm(ctx context.Context, c *conn) error {
	if err := beginReading(ctx, c); err != nil {
		return err
	}
	_, err := c.exec(context.WithoutCancel(ctx), "ROLLBACK")
	return err
}

// Content implements tiers.Frozen.
func (f *frozen) Content(ctx context.Context, facts ...string) (content tiers.Content, err error) {
	err = f.read(ctx, func(c *conn) error {
		if f.asked == nil || !slices.Equal(f.asked, facts) {
			if f.counted, err = contentOf(ctx, c, facts); err != nil {
				return err
			}
			f.asked = append([]string{}, facts...)
		}
		content = f.counted
		return nil
	})
	if err != nil {
		return tiers.Content{}, f.t.failed("freeze", tiers.Key{}, err)
	}
	content.Held = f.held
	return content, nil
}

// Copy implements tiers.Frozen: the pages of the file, one after the other, as the
// view shows them. Pages that hold nothing any more are written as zeros, so that
// what was deleted is in no backup.
func (f *frozen) Copy(ctx context.Context, w io.Writer) error {
	if err := f.copy(ctx, w); err != nil {
		return f.t.failed("copy", tiers.Key{}, err)
	}
	return nil
}

func (f *frozen) copy(ctx context.Context, w io.Writer) error {
	var size, count int64
	var free pageSet
	err := f.read(ctx, func(c *conn) (err error) {
		if size, count, err = pagesOf(ctx, c); err != nil {
			return err
		}
		free, err = freePages(ctx, c, size, count)
		return err
	})
	if err != nil {
		return err
	}
	buf := make([]byte, 0, copyPages*size)
	for first := int64(1); first <= count; first += copyPages {
		last := min(first+copyPages-1, count)
		buf = buf[:0]
		err := f.read(ctx, func(c *conn) (err error) {
			buf, err = appendPages(ctx, c, buf, first, last, size)
			return err
		})
		if err != nil {
			return err
		}
		for n := first; n <= last; n++ {
			if free.has(n) {
				clear(buf[(n-first)*size : (n-first+1)*size])
			}
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// pagesOf answers the size of a page and how many the file has.
func pagesOf(ctx context.Context, c *conn) (size, count int64, err error) {
	ctx = context.WithoutCancel(ctx)
	if size, err = c.number(ctx, "PRAGMA page_size"); err != nil {
		return 0, 0, err
	}
	count, err = c.number(ctx, "PRAGMA page_count")
	return size, count, err
}

func appendPages(ctx context.Context, c *conn, buf []byte, first, last, size int64) ([]byte, error) {
	n := len(buf)
	// A statement under a context that may end costs a goroutine; this one is short.
	err := c.query(context.WithoutCancel(ctx), readPages, []driver.Value{first, last}, func(row []driver.Value) (bool, error) {
		page, _ := row[0].([]byte)
		if int64(len(page)) != size {
			return false, fmt.Errorf("%w: a page has %d bytes, not %d", tiers.ErrCorrupt, len(page), size)
		}
		buf = append(buf, page...)
		return true, nil
	})
	if err == nil && int64(len(buf)-n) != (last-first+1)*size {
		err = fmt.Errorf("%w: pages %d to %d can't be read", tiers.ErrCorrupt, first, last)
	}
	return buf, err
}

// pageSet is a set of numbers of pages.
type pageSet []uint64

func (s pageSet) add(n int64)      { s[n/64] |= 1 << (n % 64) }
func (s pageSet) has(n int64) bool { return len(s) > 0 && s[n/64]&(1<<(n%64)) != 0 }

// freePages answers the pages that hold nothing (the leaves of the list of free
// pages, https://sqlite.org/fileformat2.html#the_freelist).
func freePages(ctx context.Context, c *conn, size, count int64) (pageSet, error) {
	free := make(pageSet, count/64+1)
	page, err := appendPages(ctx, c, nil, 1, 1, size)
	if err != nil {
		return nil, err
	}
	next := int64(binary.BigEndian.Uint32(page[32:]))
	for seen := int64(0); next != 0; seen++ {
		if next > count || seen > count {
			return nil, fmt.Errorf("%w: the list of free pages has no end", tiers.ErrCorrupt)
		}
		if page, err = appendPages(ctx, c, page[:0], next, next, size); err != nil {
			return nil, err
		}
		next = int64(binary.BigEndian.Uint32(page))
		leaves := int64(binary.BigEndian.Uint32(page[4:]))
		if leaves > size/4-2 {
			return nil, fmt.Errorf("%w: the list of free pages is too long", tiers.ErrCorrupt)
		}
		for i := range leaves {
			leaf := int64(binary.BigEndian.Uint32(page[8+4*i:]))
			if leaf == 0 || leaf > count {
				return nil, fmt.Errorf("%w: the list of free pages names page %d of %d", tiers.ErrCorrupt, leaf, count)
			}
			free.add(leaf)
		}
	}
	return free, nil
}
