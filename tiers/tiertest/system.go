package tiertest

import (
	"context"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// RunSystem checks every promise of [tiers.System] on the capability of the
// tier that open answers. What it says of itself in Describe decides whether
// its store must survive Close, and be shared between handles.
func RunSystem(t *testing.T, open func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error)) {
	t.Helper()
	runGroups(t, Config{Open: open}, systemGroups())
}

func systemGroups() []group { return nil }
