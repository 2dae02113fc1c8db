package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// found answers a store's findings about backups, one a line.
func found(t *testing.T, b *manager.Backups) (manager.BackupStatus, string) {
	t.Helper()
	s := value[manager.BackupStatus](t)(b.Status(t.Context()))
	var all []string
	for _, f := range s.Findings {
		if !f.OK {
			all = append(all, f.Subject+": "+f.Message)
		}
	}
	return s, strings.Join(all, "\n")
}

func TestARunByHandThatFailsIsRememberedAndToldOnce(t *testing.T) {
	n := newNights(t)
	must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
	n.down.Store(true)
	_, err := n.b.Run(t.Context(), n.m)
	if !errors.Is(err, errDown) {
		t.Fatalf("it answers %v", err)
	}
	told := n.notices()
	if len(told) != 1 || told[0].Event != backup.EventFailed || told[0].Try != 1 || told[0].Error == "" || told[0].Next.IsZero() {
		t.Errorf("told was %+v", told)
	}
	if _, text := found(t, n.b); !strings.Contains(text, "backup: runs: by hand or from a timer 1 failed") || !strings.Contains(text, errDown.Error()) {
		t.Errorf("found is %q", text)
	}
	if _, err = n.b.RunOpening(t.Context(), func(context.Context) (*manager.Manager, error) { return nil, tiers.ErrUnavailable }); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("a store that can't be opened: %v", err)
	}
	if _, text := found(t, n.b); !strings.Contains(text, "2 failed") {
		t.Errorf("found is %q", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = n.b.RunOpening(ctx, func(ctx context.Context) (*manager.Manager, error) { return nil, ctx.Err() }); err == nil {
		t.Error("an interrupted run succeeds")
	}
	if told = n.notices(); len(told) != 2 {
		t.Errorf("told was %+v", told)
	}
	n.down.Store(false)
	if run := value[manager.BackupRun](t)(n.b.Run(t.Context(), n.m)); !run.Verified || run.Untold != nil {
		t.Errorf("the run is %+v", run)
	}
	if told = n.notices(); len(told) != 3 || told[2].Event != backup.EventSucceeded {
		t.Errorf("told was %+v", told)
	}
	if _, text := found(t, n.b); text != "" {
		t.Errorf("after a good one it finds %q", text)
	}
}

func TestARunWhoseProcessDiedIsFound(t *testing.T) {
	m := openEmbedded(t)
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	dir := filepath.Join(m.Config().DataDir, "jobs")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "backup.json"), []byte(`{"hand":{"began":"2026-01-01T00:00:00Z"}}`), 0o600))
	if _, text := found(t, b); !strings.Contains(text, "begun at 2026-01-01T00:00:00Z by hand or from a timer never ended") {
		t.Errorf("found is %q", text)
	}
}

func TestStatusSaysWhetherAnythingMakesTheNextBackup(t *testing.T) {
	clock := sagetest.NewClock(start)
	cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{Enabled: true, Zone: "UTC", Jitter: "none"}}
	open := func(opts ...manager.OpenOption) *manager.Manager {
		t.Helper()
		return value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all(), append(opts, manager.WithClock(clock))...))
	}
	m := open(manager.WithoutJobs()) // as a command has it
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	if s, text := found(t, b); s.Watched || text != "" {
		t.Errorf("at first: watched %v, %q", s.Watched, text)
	}
	for range 3 { // a timer makes one every night, at times an hour late
		value[manager.BackupRun](t)(b.Run(t.Context(), m))
		clock.Advance(25 * time.Hour)
		if s, text := found(t, b); s.Watched || text != "" {
			t.Errorf("with a timer: watched %v, %q", s.Watched, text)
		}
	}
	clock.Advance(4 * time.Hour)
	if _, text := found(t, b); !strings.Contains(text, "backup: runner: nothing that makes backups by itself is there, none was ever seen") {
		t.Errorf("without a run for more than a day: %q", text)
	}
	program := open()
	for tries := 0; !value[manager.BackupStatus](t)(b.Status(t.Context())).Watched; time.Sleep(time.Millisecond) {
		if tries++; tries > 30_000 {
			t.Fatal("a program that has the store open is never seen")
		}
	}
	closeNow(t, program)
	clock.Advance(26 * time.Minute)
	if s, _ := found(t, b); s.Watched || s.State.Watched.IsZero() {
		t.Errorf("after its end it is seen at %v", s.State.Watched)
	}
	closeNow(t, m)
}

func TestABackupBesideTheScheduleTakesTheLockAsWell(t *testing.T) {
	m := openEmbedded(t)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	busy, free := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	told := false
	go func() {
		_, err := m.Backup(context.Background(), nil, manager.BackupProgress(func(backup.Progress) {
			if !told {
				told = true
				close(busy)
				<-free
			}
		}))
		first <- err
	}()
	<-busy
	if s, _ := found(t, b); !strings.HasPrefix(s.UnderWay, "process ") {
		t.Errorf("under way is %q", s.UnderWay)
	}
	_, err := m.Backup(t.Context(), nil)
	wantError(t, err, tiers.ErrConflict, "one is under way")
	if !contains(err, " since ") {
		t.Errorf("%v does not say since when", err)
	}
	close(free)
	must(t, <-first)
	if s, _ := found(t, b); s.UnderWay != "" {
		t.Errorf("afterwards under way is %q", s.UnderWay)
	}
}
