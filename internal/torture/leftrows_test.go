//go:build linux

package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/internal/torture/check"
)

// TestARowOfATreeThatIsLeftIsSeen: on PostgreSQL such a row is of the tier and the tree.
func TestARowOfATreeThatIsLeftIsSeen(t *testing.T) {
	srv := pgtest.Shared(t)
	s := store{Dir: filepath.Join(t.TempDir(), "data"), Postgres: srv.URL("postgres"), Schema: "left_rows"}
	m, err := s.open(t.Context(), newPoints("", 0, false), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		tier string
		left bool
	}{{"file.reached", false}, {"file@00.reached", false}, {"file@00", true}} {
		srv.Exec(t, "postgres", strings.ReplaceAll(`
			INSERT INTO left_rows.journal (seq, tier, namespace, category, key, owner, deleted, queued, bytes, codec, schema, flags, version, created, updated, expires, value)
			SELECT coalesce(max(seq), 0) + 1, 'TIER', '', 'pool.file', 'k', '', false, 1, 2, 'raw', 0, 0, 1, 1, 1, 0, 'v' FROM left_rows.journal;
			INSERT INTO left_rows.journal_tiers (tier, version, entries, bytes) VALUES ('TIER', 1, 1, 2)`, "TIER", row.tier))
		found, err := check.Read(t.Context(), s.places())
		if err != nil {
			t.Fatal(err)
		}
		reported := slices.ContainsFunc(found.Faults, func(f check.Fault) bool { return f.Kind == "journal" })
		if reported != row.left {
			t.Errorf("with a row of %s the checker finds %v", row.tier, found.Faults)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err = s.waitForJournal(ctx)
		cancel()
		if row.left != errors.Is(err, context.DeadlineExceeded) || !row.left && err != nil {
			t.Errorf("with a row of %s the wait for the journal ends with %v", row.tier, err)
		}
	}
}
