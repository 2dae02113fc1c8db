package manager

import (
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// ClockOf answers the clock of the store that a scope belongs to: what
// [WithClock] gave, else the system's. Libraries take their times from it.
func ClockOf(s Scope) tiers.Clock { return s.scope().core.clock }

// ConfigOf answers what the configuration came to, of the store that a scope
// belongs to.
func ConfigOf(s Scope) *config.Effective { return s.scope().core.plan }

// NamespaceOf answers the namespace of a scope, "" for the default one.
func NamespaceOf(s Scope) string { return s.scope().namespace }
