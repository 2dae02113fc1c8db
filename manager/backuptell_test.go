package manager_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func TestANoticeThatFailsIsToldUntilOneSucceeds(t *testing.T) {
	var answer atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(answer.Load())) }))
	defer hook.Close()
	dir := t.TempDir()
	well := filepath.Join(dir, "well")
	cfg := &config.Config{DataDir: filepath.Join(dir, "store"), Backup: config.Backup{
		Webhook: config.Secret(hook.URL + "/hunter2"), OnSuccess: []string{"test -e " + well}, OnFailure: []string{"exit 9"},
	}}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all()))
	defer closeNow(t, m)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	for _, c := range []struct {
		why    string
		answer int
		well   bool
		fails  bool
		untold string   // how it begins; "" is nothing
		found  []string // beginnings of what is found
	}{
		{"both are told", 200, true, false, "", nil},
		{"the webhook fails, the command is told", 500, true, false, "not everybody was told about the backup: backup.webhook: the webhook at ", []string{"backup.webhook was not told 1 times"}},
		{"the webhook fails again", 503, true, false, "not everybody was told", []string{"backup.webhook was not told 2 times"}},
		{"neither is told", 500, false, false, "nobody was told about the backup: backup.webhook: ", []string{"backup.webhook was not told 3 times", "backup.on_success was not told 1 times"}},
		{"a failure is told by the webhook only", 200, true, true, "not everybody was told about the backup: backup.on_failure: ", []string{"runs", "backup.on_success was not told 1 times", "backup.on_failure was not told 1 times"}},
		{"a success reaches both, and the command for failures is still broken", 200, true, false, "", []string{"backup.on_failure was not told 1 times"}},
	} {
		answer.Store(int64(c.answer))
		must(t, os.RemoveAll(well))
		if c.well {
			must(t, os.WriteFile(well, nil, 0o600))
		}
		open := func(context.Context) (*manager.Manager, error) { return m.Namespace("a"), nil }
		if c.fails {
			open = func(context.Context) (*manager.Manager, error) { return nil, tiers.ErrUnavailable }
		}
		run, err := b.RunOpening(t.Context(), open)
		if (err != nil) != c.fails {
			t.Fatalf("%s: %v", c.why, err)
		}
		untold := ""
		if run.Untold != nil {
			untold = run.Untold.Error()
		}
		if c.untold == "" && untold != "" || !strings.HasPrefix(untold, c.untold) || strings.Contains(untold, "hunter2") {
			t.Errorf("%s: untold is %q", c.why, untold)
		}
		s, text := found(t, b)
		n := 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "backup: notices: ") || strings.HasPrefix(line, "backup: runs: ") {
				n++
			}
		}
		for _, want := range c.found {
			if !strings.Contains(text, want) {
				t.Errorf("%s: found is\n%s\nwithout %q", c.why, text, want)
			}
		}
		if n != len(c.found) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: found is\n%s", c.why, text)
		}
		if problem := m.Health(t.Context()).BackupProblem; (problem == "") != (len(c.found) == 0) {
			t.Errorf("%s: health says %q of %+v", c.why, problem, s.State.Untold)
		}
	}
}

func TestARunThatNobodyIsToBeToldOfIsNoFailure(t *testing.T) {
	m := openEmbedded(t)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	run := value[manager.BackupRun](t)(b.Run(t.Context(), m))
	st := value[backup.State](t)(b.State(t.Context()))
	if run.Untold != nil || st.Untold != (backup.UntoldState{}) {
		t.Errorf("untold is %v, %+v", run.Untold, st.Untold)
	}
}
