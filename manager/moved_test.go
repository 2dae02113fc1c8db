package manager_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func TestConfigurationThatHidesRecordsIsRefused(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	cfg := func(tier string) *config.Config {
		return &config.Config{DataDir: dir, Categories: map[string]config.Category{"app.notes": {Tier: tier}}}
	}
	open := func(tier string, opts ...manager.OpenOption) *manager.Manager {
		return value[*manager.Manager](t)(manager.Open(ctx, cfg(tier), all(), opts...))
	}
	m := open("file")
	must(t, m.Namespace("acme").Save(ctx, "app.notes", "k", "v"))
	closeNow(t, m)

	_, err := manager.Open(ctx, cfg("database"), all())
	for _, want := range []string{"app.notes", "file", "database", "give the category its tier file again"} {
		if !contains(err, want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	m = open("database", manager.AllowMoved())
	closeNow(t, m)

	m = open("file")
	value[bool](t)(m.Namespace("acme").Delete(ctx, "app.notes", "k"))
	closeNow(t, m)
	m = open("database") // nothing is hidden any more
	must(t, m.Save(ctx, "app.notes", "k", "v"))
	closeNow(t, m)
	if _, err := manager.Open(ctx, cfg("file"), all()); err == nil {
		t.Error("the new home was not remembered")
	}
}

func TestNoMigrationIsAdvisedWhereNothingCanBeMoved(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	cfg := func(tier string) *config.Config {
		return &config.Config{DataDir: dir, Categories: map[string]config.Category{"session.context": {Tier: tier}}}
	}
	m := value[*manager.Manager](t)(manager.Open(ctx, cfg("database"), all()))
	must(t, m.Save(ctx, "session.context", "s-1/goal", "v"))
	closeNow(t, m)

	_, err := manager.Open(ctx, cfg("memory"), all())
	wantError(t, err, tiers.ErrCategory, "open")
	if contains(err, "migrate") || !contains(err, "give the category its tier database again; to do without the records, delete them first") {
		t.Errorf("open: %v", err)
	}
}

func TestMemoryHidesNothingWhenACategoryLeavesIt(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	for _, tier := range []string{"memory", "database"} {
		m := value[*manager.Manager](t)(manager.Open(ctx, &config.Config{
			DataDir: dir, Categories: map[string]config.Category{"app.notes": {Tier: tier}},
		}, all()))
		must(t, m.Save(ctx, "app.notes", "k", "v"))
		closeNow(t, m)
	}
}

func TestLibraryThatMovesItsCategoryIsRefusedAtItsFirstCall(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := openDir(t, dir)
	must(t, manager.For[int](m, "lib.a", manager.Policy(config.Category{Tier: "file"})).Save(ctx, "k", 1))
	closeNow(t, m)
	m = openDir(t, dir)
	defer closeNow(t, m)
	c := manager.For[int](m, "lib.a", manager.Policy(config.Category{Tier: "database"}))
	_, err := c.Load(ctx, "k")
	wantError(t, err, tiers.ErrCategory, "load")
	if !contains(err, "give the category its tier file again") || errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("load: %v", err)
	}
	wantError(t, c.Save(ctx, "k", 2), tiers.ErrCategory, "save")
}

func TestChangedTTLHoldsForNewSavesAndIsReported(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	var log bytes.Buffer
	open := func(ttl config.TTL) *manager.Manager {
		return value[*manager.Manager](t)(manager.Open(ctx, &config.Config{
			DataDir: dir, Categories: map[string]config.Category{"app.notes": {Tier: "database", TTL: ttl}},
		}, all(), manager.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	}
	reported := func(m *manager.Manager) string {
		for _, f := range m.Diagnose(ctx) {
			if strings.Contains(f.Subject, "app.notes") {
				return f.Message
			}
		}
		return ""
	}
	m := open(config.Never)
	must(t, m.Save(ctx, "app.notes", "old", "v"))
	if got := reported(m); got != "" {
		t.Errorf("reported before any change: %s", got)
	}
	closeNow(t, m)

	m = open("1h")
	if got := reported(m); !strings.Contains(got, "never") || !strings.Contains(got, "1h0m0s") {
		t.Errorf("reported before the first save: %q", got)
	}
	fresh := value[manager.Item](t)(m.SaveItem(ctx, "app.notes", "new", "v"))
	old := value[manager.Item](t)(m.Item(ctx, "app.notes", "old"))
	if fresh.Expires.IsZero() || !old.Expires.IsZero() {
		t.Errorf("new expires %v, old %v", fresh.Expires, old.Expires)
	}
	closeNow(t, m)
	if !strings.Contains(log.String(), "app.notes") || strings.Contains(log.String(), "old\"") {
		t.Errorf("the log: %s", log.String())
	}

	m = open("1h")
	defer closeNow(t, m)
	if got := reported(m); !strings.Contains(got, "never") {
		t.Errorf("reported as long as old records may be there: %q", got)
	}
}
