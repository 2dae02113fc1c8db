package manager

import (
	"context"

	"github.com/sagestore/sagestore/tiers"
)

// RawRecords answers the records of a category as a tier has them, of all namespaces.
func (m *Manager) RawRecords(ctx context.Context, tier, category string) (all []tiers.Record, err error) {
	t := m.core.stations[tier].tier
	for s, err := range t.Spaces(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Category != category {
			continue
		}
		for r, err := range t.List(ctx, tiers.Query{Namespace: s.Namespace, Category: category}) {
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// ApplyRaw stores records in a tier as they are.
func (m *Manager) ApplyRaw(ctx context.Context, tier string, rs ...tiers.Record) error {
	a, ok := tiers.As[tiers.Applier](m.core.stations[tier].tier)
	if !ok {
		return tiers.ErrUnsupported
	}
	return a.Apply(ctx, rs, nil)
}

// StartRawSession makes a session as the first call within it does.
func (m *Manager) StartRawSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	return m.core.system.StartSession(ctx, namespace, id)
}
