package manager_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/manager"
)

// TestANewStoreAlarmsNobodyAndAnEmptiedOneDoes: a program has no record in its first
// nights, and no more than that is known of it; once there was a backup an empty store
// may be the wrong one.
func TestANewStoreAlarmsNobodyAndAnEmptiedOneDoes(t *testing.T) {
	n := newNights(t)
	for range 3 {
		n.clock.Advance(16 * time.Hour)
		evening := n.clock.Now()
		n.untilAwake("the night was looked at", func() bool {
			st := value[backup.State](t)(n.b.State(t.Context()))
			return !st.Empty.Before(evening) && st.Tries == 0
		})
		n.clock.Advance(8 * time.Hour)
	}
	s, text := found(t, n.b)
	if s.Backups != 0 || text != "" || len(n.notices()) > 0 {
		t.Errorf("of a new store: %d backups, %q, told was %v", s.Backups, text, n.notices())
	}
	if h := n.m.Health(t.Context()); !h.LastBackup.IsZero() || h.BackupProblem != "" || !h.NextBackup.After(n.clock.Now()) {
		t.Errorf("of a new store: health is %+v", h)
	}
	must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
	if note := n.pass(); note.Event != backup.EventSucceeded {
		t.Errorf("with its first record: %+v", note)
	}
	if st := value[backup.State](t)(n.b.State(t.Context())); !st.Empty.IsZero() {
		t.Errorf("with a backup it was empty at %v", st.Empty)
	}
	value[bool](t)(n.m.Delete(t.Context(), "agent.state", "a"))
	if note := n.pass(); note.Event != backup.EventFailed || !strings.Contains(note.Error, backup.ErrEmpty.Error()) {
		t.Errorf("once it is emptied: %+v", note)
	}
	n.until("health tells of it", func() bool { return strings.HasPrefix(n.m.Health(t.Context()).BackupProblem, "the run of ") })
	// Whoever says once that it is meant is not asked again.
	n.inTurn(func() error {
		_, err := n.b.Run(t.Context(), n.m, manager.BackupAllowEmpty())
		return err
	})
	if note := n.pass(); note.Event != backup.EventSucceeded || note.Records != 0 {
		t.Errorf("once that is allowed: %+v", note)
	}
}

// TestARefusedPruneIsToldUntilItIsAccepted: backups that only become more fill the disk.
func TestARefusedPruneIsToldUntilItIsAccepted(t *testing.T) {
	n := newNights(t)
	must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
	must(t, n.m.Save(t.Context(), "config", "large", strings.Repeat("0123456789", 100_000)))
	n.pass()
	value[bool](t)(n.m.Delete(t.Context(), "config", "large"))
	note := n.pass()
	if note.Event != backup.EventRefused || note.Backup == "" {
		t.Fatalf("the night is %+v", note)
	}
	const reason = "no backup is removed: backup "
	if _, text := found(t, n.b); !strings.Contains(text, "backup: prune: "+reason) {
		t.Errorf("found is %q", text)
	}
	if h := n.m.Health(t.Context()); !strings.Contains(h.BackupProblem, reason) || h.LastBackup.IsZero() {
		t.Errorf("health is %+v", h)
	}
	n.inTurn(func() error {
		_, err := n.b.Prune(t.Context(), manager.PruneOptions{AcceptSmaller: true})
		return err
	})
	if _, text := found(t, n.b); text != "" {
		t.Errorf("once it is accepted: %q", text)
	}
	if h := n.m.Health(t.Context()); h.BackupProblem != "" {
		t.Errorf("once it is accepted: health tells of %q", h.BackupProblem)
	}
}
