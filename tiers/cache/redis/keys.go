package redis

import (
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// names makes the keys of one prefix and epoch.
type names struct {
	root   string // PREFIX:{EPOCH.
	mark   string // the highest version that was issued
	spaces string // the set of spaces that hold records

	changes string // the channel on which processes tell each other what they changed
}

func newNames(prefix, epoch string) (names, error) {
	if err := checkPart("prefix", prefix, "._:-", 1, 100); err != nil {
		return names{}, err
	}
	if err := checkPart("epoch", epoch, "_-", 0, 64); err != nil {
		return names{}, err
	}
	own := prefix + ":{" + epoch + "}:"
	return names{root: prefix + ":{" + epoch + ".", mark: own + "mark", spaces: own + "spaces", changes: own + "changes"}, nil
}

// checkPart keeps braces and dots out of what stands before and within the
// braces of a key, so that no two stores can share one.
func checkPart(what, s, punctuation string, least, most int) error {
	if len(s) < least || len(s) > most {
		return fmt.Errorf("redis: the %s has %d bytes, %d to %d are allowed", what, len(s), least, most)
	}
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(punctuation, c) >= 0 {
			continue
		}
		return fmt.Errorf("redis: the %s %q holds %q; letters, digits and %q are allowed", what, s, c, punctuation)
	}
	return nil
}

// bucket is the key of a space's index, and with ":" the beginning of the keys
// of its records. There is one bucket a space, number 0.
func (n names) bucket(s tiers.Space) string {
	return n.root + s.Namespace + "." + s.Category + ".0}"
}

func (n names) value(k tiers.Key) string {
	return n.root + k.Namespace + "." + k.Category + ".0}:" + k.Name
}

// valueAt answers as well how long the bucket is that the key begins with.
func (n names) valueAt(k tiers.Key) (key string, bucket uint16) {
	key = n.value(k)
	return key, uint16(len(key) - len(k.Name) - 1) //nolint:gosec // all parts of a key are bounded
}

// rootLen is the length of what comes before the name of a space.
func (n names) rootLen() uint16 { return uint16(len(n.root)) } //nolint:gosec // prefix and epoch are bounded

// member is a space's entry in the set of spaces. A namespace has no dot.
func member(s tiers.Space) string { return s.Namespace + "." + s.Category }

func spaceOf(member string) (tiers.Space, bool) {
	namespace, category, ok := strings.Cut(member, ".")
	s := tiers.Space{Namespace: namespace, Category: category}
	return s, ok && s.Check() == nil
}
