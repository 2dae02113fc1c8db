package manager_test

import (
	"testing"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
)

func TestScopesTellClockAndConfiguration(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	m := sagetest.Open(t, manager.WithClock(sagetest.NewClock(start)))
	err := m.Update(t.Context(), func(tx *manager.Tx) error {
		for _, s := range []manager.Scope{m, m.Namespace("acme"), tx} {
			if now := manager.ClockOf(s).Now(); !now.Equal(start) {
				t.Errorf("the clock of a %T says %v, it was given %v", s, now, start)
			}
			if manager.ConfigOf(s) != m.Config() {
				t.Errorf("a %T has a configuration of its own", s)
			}
		}
		if got := manager.NamespaceOf(m.Namespace("acme")); got != "acme" || manager.NamespaceOf(tx) != "" {
			t.Errorf("the view's namespace is %q, the transaction's %q", got, manager.NamespaceOf(tx))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
