package engine

import (
	"regexp"
	"strings"
)

// SchemaPattern leaves out what would have to be quoted, and leaves room in the 63 bytes
// of an identifier for what is added to the name of a schema beside it.
const SchemaPattern = `^[a-z_][a-z0-9_]{0,47}$`

var schemaName = regexp.MustCompile(SchemaPattern)

// CheckSchemaName answers what is wrong with the name of a schema on PostgreSQL; "" is
// nothing.
func CheckSchemaName(name string) (problem string) {
	if schemaName.MatchString(name) && !strings.HasPrefix(name, "pg_") {
		return ""
	}
	return `it must be a-z, 0-9 and "_", not begin with a digit or pg_, and have 48 bytes at most`
}
