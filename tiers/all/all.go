// Package all is the registry of every driver of this module: those of package
// embedded, and those of servers: Redis and PostgreSQL.
package all

import (
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
	"github.com/sagestore/sagestore/tiers/database/postgres"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// Tiers answers the drivers, a new slice at each call.
func Tiers() tiers.Drivers {
	return append(embedded.Tiers(), redis.Driver(), postgres.Driver())
}
