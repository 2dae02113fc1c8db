package backup

import (
	"errors"
	"testing"
)

// TestVerifiedWithNothingToCheckIsNotVerified: nor does such a backup push out others.
func TestVerifiedWithNothingToCheckIsNotVerified(t *testing.T) {
	s := &store{dir: t.TempDir()}
	s.open(t)
	b := newBucket()
	r := mustRepo(t, b, options(t))
	refusing := func(s *store) Source {
		source := s.source(t)
		source.RefuseEmpty = true
		return source
	}
	m, report, err := r.Create(t.Context(), refusing(s))
	if !errors.Is(err, ErrEmpty) || m.ID != "" || report.Records != 0 || len(b.objects) > 0 {
		t.Errorf("of an empty store: %+v, %v; %d objects", report, err, len(b.objects))
	}
	if m, _, err = r.Create(t.Context(), s.source(t)); err != nil || m.ID == "" {
		t.Errorf("though it is allowed: %v", err)
	}
	for _, c := range []struct {
		why  string
		fill func(t *testing.T, s *store)
	}{
		{"one record of the database", func(t *testing.T, s *store) { t.Helper(); s.save(t, "config", "a", `1`) }},
		{"one file", func(t *testing.T, s *store) { t.Helper(); s.file(t, "config/a.json", `1`) }},
		{"one file that is damaged", func(t *testing.T, s *store) { t.Helper(); s.file(t, "config/a.json", `{`) }},
	} {
		s := &store{dir: t.TempDir()}
		s.open(t)
		c.fill(t, s)
		if _, _, err := mustRepo(t, newBucket(), options(t)).Create(t.Context(), refusing(s)); err != nil {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}
