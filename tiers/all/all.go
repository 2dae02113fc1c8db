// Package all is the registry of every driver of this module: those of package
// embedded, and Redis.
package all

import (
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// Tiers answers the drivers, a new slice at each call.
func Tiers() tiers.Drivers {
	return append(embedded.Tiers(), redis.Driver())
}
