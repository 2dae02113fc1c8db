package archive

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sagestore/sagestore/tiers"
)

// Limits of names, in bytes.
const (
	maxName = 4096
	maxPart = 255
)

// CheckName answers ErrCorrupt, with what is wrong, for a name that may not be in
// an archive: it has to be relative and clean, with slashes, and mean the same on
// every system.
func CheckName(name string) error {
	bad := func(why string) error { return fmt.Errorf("%w: the name %.200q %s", tiers.ErrCorrupt, name, why) }
	switch {
	case name == "":
		return fmt.Errorf("%w: a name is empty", tiers.ErrCorrupt)
	case len(name) > maxName:
		return bad("is too long")
	case !utf8.ValidString(name):
		return bad("is not valid UTF-8")
	case strings.HasPrefix(name, "/"):
		return bad("is absolute")
	case strings.ContainsRune(name, '\\'):
		return bad("holds a backslash")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return bad("is not clean")
		case len(part) > maxPart:
			return bad("has a part that is too long")
		case strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return bad("holds a control character")
		}
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return bad("is reserved on this system")
	}
	return nil
}

// Compare orders names as they stand in an archive: part by part, whether letters
// are capital or not. So names that are the same on some system are neighbours.
func Compare(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), compareParts)
}

// sortParts orders the names of one directory.
func sortParts(names []string) { slices.SortFunc(names, compareParts) }

func compareParts(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }

// follow answers why a name may not come after another one.
func follow(before, name string) error {
	if before == "" {
		return nil
	}
	a, b := strings.Split(before, "/"), strings.Split(name, "/")
	for i := range min(len(a), len(b)) {
		switch c := compareParts(a[i], b[i]); {
		case c > 0:
			return fmt.Errorf("%w: %.200q comes after %.200q", tiers.ErrCorrupt, name, before)
		case c < 0:
			return nil
		case a[i] != b[i]:
			return fmt.Errorf("%w: %.200q and %.200q are one file where capital letters don't count", tiers.ErrCorrupt, before, name)
		}
	}
	switch {
	case len(a) == len(b):
		return fmt.Errorf("%w: %.200q is there twice", tiers.ErrCorrupt, name)
	case len(a) < len(b):
		return fmt.Errorf("%w: %.200q is a file and a directory", tiers.ErrCorrupt, before)
	}
	return fmt.Errorf("%w: %.200q comes after %.200q", tiers.ErrCorrupt, name, before)
}
