package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

func TestADamagedEntryHidesNoOther(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir, nil)
	const n = 1000
	keys := make([]tiers.Key, n)
	for i := range keys {
		keys[i] = save(t, tier, entry(fmt.Sprintf("k%03d", i), 0)).Key
	}
	path := filepath.Join(dir, "session.history", "k500.entry")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "session.history"}) {
		switch {
		case err == nil && r.Name != "k500":
			good++
		case errors.Is(err, tiers.ErrCorrupt) && r.Name == "k500":
			bad++
		default:
			t.Errorf("listed %q, %v", r.Name, err)
		}
	}
	if good != n-1 || bad != 1 {
		t.Errorf("the list has %d good and %d bad entries", good, bad)
	}
	loaded, err := tier.LoadMany(t.Context(), keys)
	var e *tiers.Error
	if !errors.Is(err, tiers.ErrCorrupt) || !errors.As(err, &e) || e.Key != "k500" {
		t.Errorf("load of many says %v", err)
	}
	for i, r := range loaded {
		if damaged := i == 500; damaged != (r.Version == 0) {
			t.Errorf("load of many: %s has version %d", keys[i].Name, r.Version)
		}
	}
}
