package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiagnoseFindsBrokenEdits(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	save(t, tier, plain("good", `1`))
	save(t, tier, plain("bad", `1`))
	records := func() (ok bool, text string) {
		for _, f := range tier.Diagnose(t.Context()) {
			if f.Subject == "records" {
				return f.OK, f.Message + "; " + f.Hint
			}
		}
		t.Fatal("it says nothing of the records")
		return false, ""
	}
	if ok, text := records(); !ok {
		t.Error(text)
	}
	if err := os.WriteFile(filepath.Join(dir, "config", "bad.json"), []byte("{\n\"a\": light}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok, text := records()
	if ok || !strings.HasPrefix(text, "1 can't be read") || !strings.Contains(text, filepath.Join("config", "bad.json")+":2") {
		t.Errorf("ok %t, %s; want path and line of the one that is broken", ok, text)
	}
}
