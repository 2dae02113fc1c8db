package check_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTheCheckerSharesNoCodeWithTheStore(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(pkg, "github.com/sagestore/sagestore") && pkg != "github.com/sagestore/sagestore/internal/torture/check" {
			t.Errorf("it imports %s", pkg)
		}
	}
}
