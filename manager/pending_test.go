package manager_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

func TestATransactionReachesIntoOtherNamespaces(t *testing.T) {
	ctx := t.Context()
	m := openEmbedded(t)
	var tx *manager.Tx
	err := m.Update(ctx, func(in *manager.Tx) error {
		must(t, in.Save(ctx, "session.preferences", "k", "default"))
		must(t, in.Namespace("acme").Save(ctx, "session.preferences", "k", "acme"))
		return in.Namespace("A B").Save(ctx, "session.preferences", "k", "x")
	})
	wantError(t, err, tiers.ErrKey, "a name that is none")
	for _, namespace := range []string{"", "acme"} {
		if got := preference(t, m.Namespace(namespace)); got != "absent" {
			t.Errorf("rolled back, %q holds %s", namespace, got)
		}
	}
	must(t, m.Update(ctx, func(in *manager.Tx) error {
		tx = in
		acme := in.Namespace("acme")
		return errors.Join(acme.Save(ctx, "session.preferences", "k", "acme"),
			acme.Namespace("").Save(ctx, "session.preferences", "k", "default"))
	}))
	for namespace, want := range map[string]string{"": "default", "acme": "acme"} {
		if got := preference(t, m.Namespace(namespace)); got != want {
			t.Errorf("%q holds %s", namespace, got)
		}
		item := value[manager.Item](t)(m.Namespace(namespace).Item(ctx, "session.preferences", "k"))
		if v := tx.Namespace(namespace).Version("session.preferences", "k"); v != item.Version {
			t.Errorf("%q: the transaction says version %d, stored is %d", namespace, v, item.Version)
		}
	}
}

func preference(t *testing.T, m *manager.Manager) string {
	t.Helper()
	var v string
	err := m.Load(t.Context(), "session.preferences", "k", &v)
	if errors.Is(err, tiers.ErrNotFound) {
		return "absent"
	}
	must(t, err)
	return v
}

func TestPendingWritesAreListedRetriedAndDropped(t *testing.T) {
	ctx, server := t.Context(), redistest.Start(t)
	cfg := &config.Config{DataDir: t.TempDir(), Redis: &config.Redis{URL: config.Secret(server.URL())}}
	m := value[*manager.Manager](t)(manager.Open(ctx, cfg, drivers.Tiers()))
	defer closeNow(t, m)
	server.Kill()
	must(t, m.Save(ctx, "session.history", "s/1", "v"))
	value[bool](t)(m.Namespace("acme").Delete(ctx, "session.history", "s/2"))
	var all []manager.PendingWrite
	for range 10_000 { // until it is known that the server is away
		all = nil
		for w, err := range m.PendingWrites(ctx, "") {
			must(t, err)
			all = append(all, w)
		}
		if len(all) > 0 && all[0].Cause != "" {
			break
		}
	}
	if len(all) != 2 || all[0].Op != "save" || all[0].Bytes != 6 || all[1].Op != "delete" || all[1].Namespace != "acme" ||
		!strings.Contains(all[0].Cause, "is away") || time.Since(all[0].Since) > time.Minute {
		t.Fatalf("pending: %+v", all)
	}
	for w, err := range m.PendingWrites(ctx, "file") {
		t.Errorf("nothing waits for the files: %+v, %v", w, err)
	}
	left, err := m.ApplyPending(ctx, "", false)
	wantError(t, err, tiers.ErrUnavailable, "retried while it is away")
	if left["cache"] != 2 || len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if n := value[int](t)(m.DropPending(ctx, all[:1])); n != 1 {
		t.Errorf("dropped %d", n)
	}
	server.Restart()
	if left := value[map[string]int64](t)(m.ApplyPending(ctx, "cache", true)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if value[bool](t)(m.Exists(ctx, "session.history", "s/1")) {
		t.Error("a write that was dropped is there")
	}
}

func TestAStoreSaysWhereItKeepsAKey(t *testing.T) {
	m := openEmbedded(t)
	for _, c := range []struct{ store, key, category, name string }{
		{"database", "a/b", "store.database", "a/b"},
		{"file", "config/settings", "config", "settings"},
		{"file", "plain", "store.file", "plain"},
		{"nowhere", "k", "", "k"},
	} {
		if category, name := m.Store(c.store).Place(c.key); category != c.category || name != c.name {
			t.Errorf("%s %s: %s %s", c.store, c.key, category, name)
		}
	}
}
