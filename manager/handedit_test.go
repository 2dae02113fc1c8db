package manager_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// edit writes a file as an editor does, at a time of its own.
func edit(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
	at := tiers.SystemClock().Now().Add(time.Second)
	must(t, os.Chtimes(path, at, at))
}

func TestSettingsEditedByHand(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := openDir(t, dir)
	defer closeNow(t, m)
	settings := manager.For[preferences](m, "config")
	path := filepath.Join(dir, "data", "config", "settings.json")

	saved := value[manager.Entry[preferences]](t)(settings.SaveEntry(ctx, "settings", preferences{Theme: "dark", Font: 12}))
	if text := string(value[[]byte](t)(os.ReadFile(path))); text != "{\n  \"theme\": \"dark\",\n  \"font\": 12\n}\n" {
		t.Errorf("the file holds %s", text)
	}

	edit(t, path, "{ \"theme\": \"light\",\n\t\"font\": 14 }")
	edited := value[manager.Entry[preferences]](t)(settings.Entry(ctx, "settings"))
	if edited.Value.Theme != "light" || edited.Value.Font != 14 || edited.Version <= saved.Version {
		t.Errorf("edited: %+v, saved with version %d", edited, saved.Version)
	}
	wantError(t, settings.Save(ctx, "settings", preferences{}, manager.IfVersion(saved.Version)), tiers.ErrConflict, "a save that has not seen the edit")

	const broken = "{\n  \"theme\": \"light\"\n  \"font\": 15\n}\n"
	edit(t, path, broken)
	refused := map[string]error{
		"save":      settings.Save(ctx, "settings", preferences{Theme: "blue"}),
		"save many": settings.SaveMany(ctx, map[string]preferences{"settings": {}}),
		"untyped":   m.Save(ctx, "config", "settings", map[string]string{"theme": "blue"}),
	}
	_, refused["load"] = settings.Load(ctx, "settings")
	_, refused["modify"] = settings.Modify(ctx, "settings", func(p *preferences, _ bool) error { p.Font++; return nil })
	_, refused["fetch"] = settings.Fetch(ctx, "settings", nil)
	for op, err := range refused {
		wantError(t, err, tiers.ErrCorrupt, op)
		if !contains(err, path+":3:") || asError(t, err).Key != "settings" {
			t.Errorf("%s does not name file and line: %v", op, err)
		}
	}
	wantError(t, settings.Save(ctx, "settings", preferences{}, manager.IfVersion(edited.Version)), tiers.ErrConflict, "a save that has not seen the broken edit")
	if text := string(value[[]byte](t)(os.ReadFile(path))); text != broken {
		t.Errorf("the broken file was changed to %s", text)
	}
	found := false
	for _, f := range m.Diagnose(ctx) {
		found = found || !f.OK && strings.Contains(f.Message, path)
	}
	if !found {
		t.Error("diagnose does not name the file")
	}

	edit(t, path, `{"theme":"mended"}`)
	if got := value[preferences](t)(settings.Load(ctx, "settings")); got.Theme != "mended" {
		t.Errorf("mended: %+v", got)
	}
	must(t, settings.Save(ctx, "settings", preferences{Theme: "saved"}))
}
