package manager_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/routetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestMain(m *testing.M) {
	if run := os.Getenv("SAGESTORE_TEST_CHILD"); run != "" {
		os.Exit(child(run))
	}
	if err := routetest.StartServer(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value answers what a call answered, and fails the test with its error.
func value[T any](t testing.TB) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantError(t testing.TB, err, want error, why string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", why, err, want)
	}
}

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// closeNow closes before the end of the test.
func closeNow(t testing.TB, m interface{ Close(context.Context) error }) {
	t.Helper()
	must(t, m.Close(context.Background()))
}

func asError(t testing.TB, err error) *tiers.Error {
	t.Helper()
	var e *tiers.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *tiers.Error", err)
	}
	return e
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
