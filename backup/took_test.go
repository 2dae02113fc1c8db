package backup

import (
	"context"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// waited is a frozen store for which writers waited so long.
type waited struct {
	tiers.Frozen

	held time.Duration
}

func (w waited) Content(ctx context.Context, facts ...string) (tiers.Content, error) {
	c, err := w.Frozen.Content(ctx, facts...)
	c.Held = w.held
	return c, err
}

func TestNobodyWaitsForLongerThanABackupTakes(t *testing.T) {
	s := newStore(t, t.TempDir())
	o := options(t)
	clock := tiertest.NewClock(night)
	o.Clock = clock
	r := mustRepo(t, newBucket(), o)
	for _, c := range []struct {
		why   string
		began time.Time
		took  time.Duration
	}{
		{"it is not known when the freezing began", time.Time{}, 3 * time.Second},
		{"the freezing is a part of it", night.Add(-5 * time.Second), 5 * time.Second},
	} {
		from := s.source(t)
		from.Began = c.began
		for i := range from.Parts {
			from.Parts[i].Frozen = waited{from.Parts[i].Frozen, 3 * time.Second}
		}
		m, _, err := r.Create(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		if m.Held != 3*time.Second || m.Took != c.took {
			t.Errorf("%s: it took %v, and commits waited %v", c.why, m.Took, m.Held)
		}
	}
}
