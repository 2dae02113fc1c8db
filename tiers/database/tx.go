package database

import (
	"context"
	"database/sql/driver"

	"github.com/sagestore/sagestore/tiers"
)

// tx is the transaction of a group, as its jobs see it.
type tx struct {
	ctx     context.Context //nolint:containedctx // the writer's: a caller that leaves must not take the others with it
	c       *conn
	clock   tiers.Clock
	hints   hints
	books   books
	reread  bool // the books were forgotten within a transaction
	many    bool // more rows have come than are kept until the commit
	waiting *waiting
	hand    string        // up to which id of a transaction has been looked for old ones
	commits int           // of transactions, to do so now and then
	seen    uint32        // the data version after this store's last commit
	mark    tiers.Version // the highest version that this store has issued
	stored  tiers.Version // what the database says of it: no version above was issued
	full    fullOrder
	pending map[int64]*indexed // entries of the index that the transaction is yet to make, by place
}

// now is the tier's time in microseconds.
func (x *tx) now() int64 { return x.clock.Now().UnixMicro() }

// next issues a version: it grows whatever the clock does.
func (x *tx) next(now int64) tiers.Version {
	x.mark = max(x.mark+1, tiers.Version(max(now, 1)))
	return x.mark
}

func (x *tx) exec(query string, args ...driver.Value) (int64, error) {
	return x.c.exec(x.ctx, query, args...)
}

func (x *tx) first(query string, args ...driver.Value) ([]driver.Value, error) {
	return x.c.first(x.ctx, query, args...)
}

func (x *tx) number(query string, args ...driver.Value) (int64, error) {
	return x.c.number(x.ctx, query, args...)
}

func micro(v tiers.Version) int64 { return int64(v) } //nolint:gosec // versions are below 2^62
