package database

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestExcludedStoreIsOpenOnce(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "sage.db")
	first, err := Open(ctx, Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(ctx) //nolint:errcheck // closed once more below
	second, err := Open(ctx, Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exclude(ctx); !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "has it open") {
		t.Errorf("with another handle open: %v", err)
	}
	if err := second.Close(ctx); err != nil {
		t.Fatal(err)
	}
	release, err := first.Exclude(ctx)
	if err != nil {
		t.Fatal(err)
	}
	impatient := surroundings{network: networkKind, patience: 10 * time.Millisecond}
	if late, err := open(ctx, Config{Path: path}, impatient); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("another handle was opened: %v", err)
		_ = late.Close(ctx)
	}
	if _, err := first.Save(ctx, tiers.Record{Key: tiers.Key{Category: "app.notes", Name: "k"}, Value: []byte("1"), Codec: "json", Schema: 1}, tiers.Cond{}); err != nil {
		t.Errorf("the one that has it to itself: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	late, err := Open(ctx, Config{Path: path})
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := errors.Join(late.Close(ctx), first.Close(ctx)); err != nil {
		t.Error(err)
	}
	if _, err := first.Exclude(ctx); !errors.Is(err, tiers.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
