package backup

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(envJob); job != "" {
		os.Exit(work(job))
	}
	goleak.VerifyTestMain(m)
}
