package learning_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/routetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = routetest.Start()

var categories = []string{"learning.patterns", "learning.optimizations", "learning.feedback"}

func routes() []routetest.Route { return routetest.Routes(categories...) }

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
