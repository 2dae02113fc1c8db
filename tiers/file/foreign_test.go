//go:build unix

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestAFileThatClaimsToBeHugeIsRefusedAndCanBeDeleted(t *testing.T) {
	for _, r := range []tiers.Record{
		plain("k", `{"n":1}`),
		{Key: key("k"), Codec: "msgpack", Schema: 1, Value: []byte("\x01")},
	} {
		dir := t.TempDir()
		tier := open(t, dir)
		save(t, tier, r)
		for _, path := range names(t, filepath.Join(dir, "config")) {
			if !strings.HasPrefix(path, ".") {
				if err := os.Truncate(filepath.Join(dir, "config", path), 1<<40); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := tier.Load(t.Context(), r.Key); !errors.Is(err, tiers.ErrTooLarge) {
			t.Errorf("%s: load: %v, want too large", r.Codec, err)
		}
		listed := 0
		for _, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
			if listed++; !errors.Is(err, tiers.ErrTooLarge) {
				t.Errorf("%s: list: %v, want too large", r.Codec, err)
			}
		}
		found := false
		for _, f := range tier.Diagnose(t.Context()) {
			found = found || !f.OK && f.Subject == "records"
		}
		existed, err := tier.Delete(t.Context(), r.Key, tiers.Cond{})
		if listed != 1 || !found || !existed || err != nil {
			t.Errorf("%s: %d listed, found %v, deleted %v, %v", r.Codec, listed, found, existed, err)
		}
		save(t, tier, r)
	}
}

func TestAListOfCodecsThatIsNoneHoldsNobodyUp(t *testing.T) {
	for name, hurt := range map[string]func(path string) error{
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a huge file": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
	} {
		dir := t.TempDir()
		tier := open(t, dir)
		if err := hurt(filepath.Join(dir, ".codecs")); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := tier.Save(t.Context(), tiers.Record{Key: key("k"), Codec: "own", Schema: 1, Value: []byte("x")}, tiers.Cond{})
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), ".codecs") {
				t.Errorf("%s: %v, want one that names the file", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: a save hangs", name)
		}
	}
}
