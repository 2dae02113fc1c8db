package database

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// TestARowThatRefersToNothingIsDamage: no table of today's schema refers to another, so
// the check is shown on one that does.
func TestARowThatRefersToNothingIsDamage(t *testing.T) {
	c, err := connect(t.Context(), dsn(filepath.Join(t.TempDir(), "references.db"), false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range []struct {
		sql  string
		want error
	}{
		{`CREATE TABLE parents (id INTEGER PRIMARY KEY)`, nil},
		{`CREATE TABLE children (parent INTEGER REFERENCES parents)`, nil},
		{`PRAGMA foreign_keys = 0`, nil},
		{`INSERT INTO parents VALUES (1)`, nil},
		{`INSERT INTO children VALUES (1)`, nil},
		{`INSERT INTO children VALUES (2)`, tiers.ErrCorrupt},
		{`DELETE FROM children WHERE parent = 2`, nil},
		{`DELETE FROM parents`, tiers.ErrCorrupt},
	} {
		if _, err := c.exec(t.Context(), s.sql); err != nil {
			t.Fatalf("%s: %v", s.sql, err)
		}
		err := checkReferences(t.Context(), c)
		if !errors.Is(err, s.want) || err != nil && !strings.Contains(err.Error(), "table children") {
			t.Errorf("after %s: %v, want %v", s.sql, err, s.want)
		}
	}
	if err := checkIntegrity(t.Context(), c); err != nil {
		t.Errorf("which the check of its pages does not find: %v", err)
	}
}
