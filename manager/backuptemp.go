package manager

import (
	"context"
	"fmt"
	"strings"
)

// findUnpacked finds stores that runs which were killed have left unpacked.
func (b *Backups) findUnpacked(s *BackupStatus) {
	left, err := b.repo.LeftBehind()
	switch {
	case err != nil:
		s.find(false, "temp", "what killed runs left can't be looked for: "+err.Error(), "see backup.temp")
	case len(left) > 0:
		s.find(false, "temp", fmt.Sprintf("killed runs left %d stores unpacked, which are not encrypted: %s", len(left), strings.Join(left, " and ")),
			"`sagestore backup create` and `sagestore backup verify latest` remove them")
	}
}

// sweepUnpacked removes them. Backups are made whether or not it can.
func (b *Backups) sweepUnpacked(ctx context.Context) {
	if err := b.repo.Sweep(); err != nil {
		b.core.log.WarnContext(ctx, "what killed runs left unpacked can't be removed", "error", err)
	}
}
