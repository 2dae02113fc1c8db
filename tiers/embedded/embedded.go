// Package embedded is the registry of the drivers that need no server: memory,
// the local cache, SQLite and files. An app that opens only these links no Redis
// and no PostgreSQL client.
package embedded

import (
	"github.com/sagestore/sagestore/tiers"
	cachefile "github.com/sagestore/sagestore/tiers/cache/file"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/memory"
)

// Tiers answers the drivers, a new slice at each call.
func Tiers() tiers.Drivers {
	return tiers.Drivers{memory.Driver(), cachefile.Driver(), database.Driver(), file.Driver()}
}
