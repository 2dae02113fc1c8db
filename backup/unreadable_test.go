package backup

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/sagestore/sagestore/tiers"
)

// harmRow changes a row of a store that is closed meanwhile.
func (s *store) harmRow(t *testing.T, statement string) {
	t.Helper()
	s.close(t)
	db, err := sql.Open("sqlite", dbPath(s.dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s.open(t)
}

// TestAnUnreadableRecordEndsNoBackup: it is then that one is needed.
func TestAnUnreadableRecordEndsNoBackup(t *testing.T) {
	recipient, identity := newIdentity(t)
	garble := func(key string) func(t *testing.T, s *store) {
		return func(t *testing.T, s *store) {
			t.Helper()
			s.save(t, "agent.state", key, `{"n":`)
		}
	}
	for _, c := range []struct {
		why     string
		harm    func(t *testing.T, s *store)
		noted   bool // in the manifest; one that is found by a rehearsal is only told
		secret  bool
		damaged int64
	}{
		{"the value of the first one", garble("key-00"), true, false, 1},
		{"the value of the first one, in a backup that is encrypted", garble("key-00"), true, true, 1},
		{"the value of a later one", garble("key-07"), false, false, 1},
		{"the only one of its category", func(t *testing.T, s *store) { t.Helper(); s.save(t, "alone", "x", `{`) }, true, false, 1},
		{"the row of the first one", func(t *testing.T, s *store) {
			t.Helper()
			s.harmRow(t, `UPDATE records SET version = -1 WHERE category = 'agent.state' AND key = 'key-00'`)
		}, true, false, 1},
		{"all of a category", func(t *testing.T, s *store) {
			t.Helper()
			s.harmRow(t, `UPDATE records SET value = '{' WHERE category = 'agent.state'`)
		}, true, false, 20},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := newStore(t, t.TempDir())
			c.harm(t, s)
			o := options(t)
			if c.secret {
				o.Recipients, o.Identities = []string{recipient}, []string{identity}
			}
			r := mustRepo(t, newBucket(), o)
			m, report, err := r.Create(t.Context(), s.source(t))
			if err != nil {
				t.Fatal(err)
			}
			noted := m.Parts[0].Damaged
			if (noted != nil) != c.noted || noted != nil && (noted.Files != c.damaged || (len(noted.Names) == 0) != c.secret) {
				t.Errorf("noted are %+v", noted)
			}
			if c.noted != (len(report.Warnings) > 0) {
				t.Errorf("the report says %q", report.Warnings)
			}
			report, err = r.Verify(t.Context(), m.ID, true)
			if err != nil {
				t.Fatal(err)
			}
			if report.Damaged != c.damaged || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "part database") {
				t.Errorf("the rehearsal says %+v", report)
			}
			if e, err := r.Latest(t.Context()); err != nil || e.Rehearsed.IsZero() {
				t.Errorf("%+v, %v", e, err)
			}
			if _, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: filepath.Join(t.TempDir(), "to")}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAVerdictOutlivesAVerificationWithTheKeysOfAnotherStore(t *testing.T) {
	s := newStore(t, t.TempDir())
	r := mustRepo(t, newBucket(), options(t))
	m := mustCreate(t, r, s)
	r.o.Decode = func(context.Context, tiers.Record) error { return tiers.ErrCorrupt }
	if _, err := r.Verify(t.Context(), m.ID, false); !errors.Is(err, tiers.ErrCorrupt) {
		t.Errorf("it is verified: %v", err)
	}
	if e, err := r.Latest(t.Context()); err != nil || e.ID != m.ID {
		t.Errorf("it does not count any more: %+v, %v", e, err)
	}
}

func TestAStoreOfWhichNothingCanBeReadIsNotVerified(t *testing.T) {
	s := newStore(t, t.TempDir())
	b := newBucket()
	r := mustRepo(t, b, options(t))
	r.o.Decode = func(context.Context, tiers.Record) error { return tiers.ErrCorrupt }
	if _, _, err := r.Create(t.Context(), s.source(t)); !errors.Is(err, tiers.ErrCorrupt) || len(b.objects) > 0 {
		t.Errorf("it was published: %v", err)
	}
}
