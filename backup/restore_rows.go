package backup

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.RowCopy = (*lentCopy)(nil)

// Rows implements tiers.RowCopy, where the copy does.
func (l *lentCopy) Rows(ctx context.Context) iter.Seq2[tiers.Row, error] {
	c, ok := l.Copy.(tiers.RowCopy)
	if !ok {
		return tiers.Failed[tiers.Row](fmt.Errorf("%w: the copy has no journal", tiers.ErrUnsupported))
	}
	return c.Rows(ctx)
}

// Waiting answers how many writes waited for other tiers when the backup was made, and
// in which part they are.
func (m *Manifest) Waiting() (part string, writes int64) {
	for _, p := range m.Parts {
		if n := p.Rows["journal"]; n > 0 {
			return p.Name, n
		}
	}
	return "", 0
}

// HasPart tells whether there is a part of that name.
func (m *Manifest) HasPart(name string) bool {
	return slices.ContainsFunc(m.Parts, func(p PartInfo) bool { return p.Name == name })
}
