package database

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

// The table recent says what the rows of the journal wrote that have left it, so
// that a commit can tell whether what it has read of another tier still holds. A
// row is noted when it leaves, in the background, and not by the commit: as long
// as it waits it speaks for itself.

const (
	// recentKept is how far back recent says everything, in sequence numbers. A
	// transaction that began before can't commit when it has read other tiers.
	recentKept = 100_000
	// recentStep is how many sequence numbers pass between two removals.
	recentStep = 1000
	// recentNear is how many entries are looked through while others wait.
	recentNear = 256

	noteRecent = `INSERT OR REPLACE INTO recent (seq, tier, namespace, category, key, version, deleted, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	forgetRecent = `DELETE FROM recent WHERE seq <= ?`
	recentSince  = `SELECT tier, namespace, category, key, version, deleted, expires FROM recent WHERE seq > ? ORDER BY seq`
	pendingState = `SELECT version, deleted, expires FROM journal WHERE seq = ?`
)

// errFar says that too much has happened since a transaction began to be looked
// through while others wait.
var errFar = errors.New("too much has happened since")

// rowKey is a key of a tier.
type rowKey struct {
	tier string
	key  tiers.Key
}

// state is what a row says of its key.
type state struct {
	version tiers.Version
	absent  bool // deleted or expired
}

// live is the version that a reader sees.
func (s state) live() tiers.Version {
	if s.absent {
		return 0
	}
	return s.version
}

// stateOf reads version, deleted and expires.
func stateOf(row []driver.Value, now int64) (s state) {
	version, _ := row[0].(int64)
	deleted, _ := row[1].(int64)
	expires, _ := row[2].(int64)
	return state{
		version: tiers.Version(version), //nolint:gosec // written from a version
		absent:  deleted != 0 || expires != 0 && expires <= now,
	}
}

// checkRows answers ErrConflict when a read of another tier does not hold any
// more, or errFar when it may only look near and must look farther.
func (x *tx) checkRows(d *decision, now int64, near bool) error {
	if len(d.RowReads) == 0 && len(d.RowRanges) == 0 {
		return nil
	}
	b, err := x.openBooks()
	if err != nil {
		return err
	}
	since := int64(min(d.Since, 1<<62))
	switch {
	case since < b.floor:
		return tiers.Hint(conflict.Errorf("too much was written since the transaction began"), "run it again")
	case near && b.last-since > recentNear:
		return errFar
	}
	news, err := x.news(since, now)
	if err != nil {
		return err
	}
	for _, r := range d.RowReads {
		if err := x.checkRowRead(r, news, now); err != nil {
			return err
		}
	}
	for _, r := range d.RowRanges {
		if err := x.checkRowRange(r, since, news); err != nil {
			return err
		}
	}
	return nil
}

// news is what recent says of the time since then, the last of each key.
func (x *tx) news(since, now int64) (map[rowKey]state, error) {
	if x.books.last <= since {
		return nil, nil
	}
	news := map[rowKey]state{}
	err := x.c.query(x.ctx, recentSince, []driver.Value{since}, func(row []driver.Value) (bool, error) {
		var k rowKey
		for i, s := range []*string{&k.tier, &k.key.Namespace, &k.key.Category, &k.key.Name} {
			*s, _ = row[i].(string)
		}
		news[k] = stateOf(row[4:], now)
		return true, nil
	})
	return news, err
}

func (x *tx) checkRowRead(r tiers.RowRead, news map[rowKey]state, now int64) error {
	if r.Unread {
		if _, applied := news[rowKey{r.Tier, r.Key}]; applied {
			return changed(r.Tier, r.Key)
		}
		return nil
	}
	var row []driver.Value
	if seq := x.find(rowKey{r.Tier, r.Key}); seq != 0 {
		var err error
		if row, err = x.first(pendingState, seq); err != nil {
			return err
		}
	}
	if row != nil {
		if stateOf(row, now).live() != r.Version {
			return changed(r.Tier, r.Key)
		}
		return nil
	}
	// What was written and has expired since is still what was read.
	if s, ok := news[rowKey{r.Tier, r.Key}]; ok && s.live() != r.Version && (r.Version == 0 || s.version != r.Version) {
		return changed(r.Tier, r.Key)
	}
	return nil
}

func (x *tx) checkRowRange(r tiers.RowRange, since int64, news map[rowKey]state) error {
	q := r.Query
	low, high := rangeBounds(r.Range)
	if low >= high {
		return nil
	}
	// A row that came since and has left again was replaced by another one, or is
	// among the news.
	space := tiers.Space{Namespace: q.Namespace, Category: q.Category}
	if name, found := x.waiting.changedSince(r.Tier, space, low, high, since); found {
		return changed(r.Tier, tiers.Key{Namespace: q.Namespace, Category: q.Category, Name: name})
	}
	inside := func(k rowKey) bool {
		return k.tier == r.Tier && k.key.Space() == space && k.key.Name >= low && k.key.Name < high
	}
	for k, seq := range x.books.at {
		if seq > since && inside(k) {
			return changed(r.Tier, k.key)
		}
	}
	for k := range news {
		if inside(k) {
			return changed(r.Tier, k.key)
		}
	}
	return nil
}

// changed is the answer to a read that does not hold any more.
func changed(tier string, k tiers.Key) error {
	return tiers.Fail("commit", tier, k, fmt.Errorf("%w: it has changed since the transaction read it", tiers.ErrConflict))
}

// pruneRecent removes old entries now and then, more than were added since the last
// time.
func (x *tx) pruneRecent(added int) error {
	b := &x.books
	keep := b.seq - recentKept
	if keep-b.floor < recentStep {
		return nil
	}
	b.floor = min(keep, b.floor+2*(recentStep+int64(added)))
	if _, err := x.exec(setCounter, b.floor, "recent"); err != nil {
		return err
	}
	_, err := x.exec(forgetRecent, b.floor)
	return err
}
