package postgres

import (
	"context"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Freezer = (*Tier)(nil)

// Freeze implements tiers.Freezer: it answers tiers.ErrUnsupported. A backup of
// sagestore does not hold a database on PostgreSQL, which has tools for that.
func (t *Tier) Freeze(context.Context, func(context.Context) error) (tiers.Frozen, error) {
	return nil, tiers.Hint(t.fail("freeze", tiers.Key{}, fmt.Errorf("%w: a database on PostgreSQL is not backed up by sagestore", tiers.ErrUnsupported)),
		"back it up with pg_dump --format=custom --schema="+t.schema+", or with the continuous archiving of the server")
}
