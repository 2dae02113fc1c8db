package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

const (
	// tried is how many records of a category of a namespace are decrypted.
	tried = 4
	// triedSpaces bounds the namespaces that are looked into, of all categories that are
	// encrypted, and of all others.
	triedSpaces = 1000
)

// diagnoseKeys decrypts some records of each category that is, or once was, encrypted. A
// key that is another than the one that they were encrypted with has its id all the same,
// and a configuration that has lost its keys is a good one: nothing else would show either
// before the records are needed.
func (c *core) diagnoseKeys(ctx context.Context) (found []tiers.Finding) {
	good, bad, seen := map[string]bool{}, map[string]error{}, map[bool]int{}
	for _, name := range c.order {
		for s, err := range c.stations[name].tier.Spaces(ctx) {
			if err != nil {
				break // which the tier's own findings tell
			}
			if bad[s.Category] != nil || isStaged(s.Category) {
				continue
			}
			p, err := c.plan.Policy(s.Category, c.facts.policy(s.Category))
			if err != nil || p.Tier != name {
				continue
			}
			if seen[p.Encrypt]++; seen[p.Encrypt] > triedSpaces {
				continue
			}
			switch n, err := c.decrypts(ctx, name, s); {
			case err != nil:
				bad[s.Category] = err
			case n > 0:
				good[s.Category] = true
			}
		}
	}
	for _, category := range slices.Sorted(maps.Keys(bad)) {
		message, hint := inParts(bad[category])
		found = append(found, tiers.Finding{Subject: "encryption of " + category, Message: message, Hint: hint})
	}
	if len(bad) == 0 && len(good) > 0 {
		found = append(found, tiers.Finding{OK: true, Subject: "encryption", Message: fmt.Sprintf("records of %d encrypted categories decrypt", len(good))})
	}
	return found
}

// decrypts answers how many records of a space it has decrypted, and why one can't be.
func (c *core) decrypts(ctx context.Context, tier string, s tiers.Space) (n int, err error) {
	for r, err := range c.stations[tier].tier.List(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category, Limit: tried}) {
		if err != nil {
			if r.Name == "" {
				return n, nil // which the tier's own findings tell
			}
			continue
		}
		if r.Flags&tiers.Encrypted == 0 {
			continue // it was saved before the category was encrypted
		}
		if _, err := c.codecs.Payload(r); err != nil && (errors.Is(err, tiers.ErrCodec) || errors.Is(err, tiers.ErrCorrupt)) {
			return n, err
		}
		n++
	}
	return n, nil
}
