package tiers

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of names, in bytes.
const (
	MaxKey       = 1024
	MaxCategory  = 100
	MaxNamespace = 64
)

// Key names a record: Name is the key inside its category, 1 to [MaxKey] bytes
// of UTF-8 without NUL, with "/" between segments. The namespace "" is the
// default one.
type Key struct{ Namespace, Category, Name string }

// Space answers the key's namespace and category.
func (k Key) Space() Space { return Space{k.Namespace, k.Category} }

// Check answers ErrKey or ErrCategory, with what is wrong, for a key that no
// tier may store.
func (k Key) Check() error {
	if err := CheckName(k.Name); err != nil {
		return err
	}
	return Space{k.Namespace, k.Category}.Check()
}

// CheckName answers ErrKey, with what is wrong, for a name that can't be a key.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrKey)
	case len(name) > MaxKey:
		return fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrKey, len(name), MaxKey)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: it holds a NUL byte", ErrKey)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: it is not valid UTF-8", ErrKey)
	}
	return nil
}

// Check answers ErrCategory or ErrKey, with what is wrong, for names that
// no tier may store. A category is segments of A-Z, a-z, 0-9, "_" and "-",
// joined by dots; a namespace is empty or made of a-z, 0-9, "_" and "-".
func (s Space) Check() error {
	if err := CheckCategory(s.Category); err != nil {
		return err
	}
	return CheckNamespace(s.Namespace)
}

// CheckCategory is the category's half of [Space.Check].
func CheckCategory(name string) error {
	if name == "" {
		return fmt.Errorf("%w: its name is empty", ErrCategory)
	}
	if len(name) > MaxCategory {
		return fmt.Errorf("%w: its name has %d bytes, %d are allowed", ErrCategory, len(name), MaxCategory)
	}
	prev := byte('.')
	for i := range len(name) {
		c := name[i]
		if c == '.' {
			if prev == '.' || i == len(name)-1 {
				return fmt.Errorf("%w: %q has an empty segment", ErrCategory, name)
			}
		} else if !isWord(c) && (c < 'A' || c > 'Z') {
			return fmt.Errorf("%w: %q holds %q; letters, digits, \"_\", \"-\" and dots are allowed", ErrCategory, name, c)
		}
		prev = c
	}
	return nil
}

// CheckNamespace is the namespace's half of [Space.Check].
func CheckNamespace(name string) error {
	if len(name) > MaxNamespace {
		return fmt.Errorf("%w: the namespace has %d bytes, %d are allowed", ErrKey, len(name), MaxNamespace)
	}
	for i := range len(name) {
		if !isWord(name[i]) {
			return fmt.Errorf("%w: the namespace %q holds %q; a-z, 0-9, \"_\" and \"-\" are allowed", ErrKey, name, name[i])
		}
	}
	return nil
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
