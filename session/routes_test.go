package session_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/routetest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/all"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = routetest.Start()

var categories = []string{
	"session.state", "session.events", "session.context", "session.history", "session.preferences",
	"knowledge.content", "knowledge.bodies", "knowledge.access", "knowledge.usage", "knowledge.tokens",
}

func routes() []routetest.Route { return routetest.Routes(categories...) }

func routeTo(tier string) routetest.Route { return routetest.To(tier, categories...) }

func open(t testing.TB, cfg *config.Config, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	m, err := manager.Open(context.WithoutCancel(t.Context()), cfg, all.Tiers(), opts...)
	must(t, err)
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](t testing.TB) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func drivers() tiers.Drivers { return all.Tiers() }
