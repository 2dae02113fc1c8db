// Package home expands "~" in paths that Go programs give to the tiers.
package home

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// Expand replaces a leading "~", alone or before a separator, by the home
// directory. Another user's, such as ~joe, is a name like any other.
func Expand(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path, nil
	}
	dir, err := os.UserHomeDir()
	if err != nil || dir == "" {
		return "", tiers.Hint(errors.New("the path begins with ~ and there is no home directory"),
			"set HOME, or write the path in full, such as with --data-dir")
	}
	return filepath.Join(dir, rest), nil
}
