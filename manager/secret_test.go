package manager_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

func TestPasswordFromTheEnvironmentWorksAndNeverShows(t *testing.T) {
	const password = `p$a{}#b:c d@e/%41"'`
	server := redistest.Start(t, "--requirepass", password)
	t.Setenv("SAGESTORE_TEST_PASSWORD", password)
	t.Setenv("SAGESTORE_TEST_WRONG", password+"x")
	for _, c := range []struct {
		why, redis string
		works      bool
	}{
		{"within the URL", `{url: "redis://:${env:SAGESTORE_TEST_PASSWORD}@` + server.Addr() + `"}`, true},
		{"beside the URL", `{url: "` + server.URL() + `", password: "${env:SAGESTORE_TEST_PASSWORD}"}`, true},
		{"a wrong one", `{url: "redis://:${env:SAGESTORE_TEST_WRONG}@` + server.Addr() + `"}`, false},
	} {
		t.Run(c.why, func(t *testing.T) {
			ctx := t.Context()
			cfg := value[*config.Config](t)(config.Parse([]byte("redis: " + c.redis)))
			cfg.DataDir = t.TempDir()
			var said bytes.Buffer
			log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
			log.Info("opening", "config", cfg, "redis", *cfg.Redis)
			m, err := manager.Open(ctx, cfg, drivers.Tiers(), manager.WithLogger(log))
			if err != nil {
				t.Errorf("open: %v", err)
			}
			fmt.Fprintln(&said, err)
			fmt.Fprintf(&said, "%v %+v %#v\n", cfg.Redis, cfg.Redis, cfg.Redis)
			if err == nil {
				history := manager.For[string](m, "session.history")
				must(t, history.Save(ctx, "s/1", "v"))
				h := m.Health(ctx)
				if h.Degraded == c.works || h.Tiers["cache"].Up != c.works {
					t.Errorf("the server is in use: want %v: %+v", c.works, h)
				}
				fmt.Fprintf(&said, "%s\n%+v\n%+v\n%+v\n", value[[]byte](t)(json.Marshal(h)), m.Diagnose(ctx), m.Config().Settings(), m.Tiers())
				closeNow(t, m)
				_, err := history.Load(ctx, "s/1")
				fmt.Fprintln(&said, err)
			}
			for _, part := range []string{password, "p$a", "c d@e", "c%20d"} {
				if strings.Contains(said.String(), part) {
					t.Errorf("the password shows:\n%s", said.String())
				}
			}
		})
	}
}

func TestErrorsOfAnOutageShowNoPassword(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := &config.Config{DataDir: t.TempDir(), Redis: &config.Redis{URL: "redis://u@127.0.0.1:1", Password: "hunter2"}}
	var log bytes.Buffer
	m := sagetest.OpenWith(t, cfg, drivers.Tiers(), manager.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must(t, m.Save(ctx, "session.history", "s/secret-key", "v"))
	said := log.String() + fmt.Sprintf("%+v %+v", m.Health(ctx), m.Diagnose(ctx))
	if !strings.Contains(said, "127.0.0.1:1") || strings.Contains(said, "hunter2") || strings.Contains(said, "secret-key") {
		t.Errorf("it says %s", said)
	}
}
