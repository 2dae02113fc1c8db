package filetree

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

func TestDiagnoseSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		why     string
		disk    Disk
		mode    os.FileMode
		broken  bool
		subject string
		ok      bool
	}{
		{"others may look in", Disk{}, 0o755, false, "directory", false},
		{"nobody else may", Disk{}, 0o700, false, "directory", true},
		{"the disk is nearly full", Disk{Free: 1 << 20, Size: 1 << 40}, 0o700, false, "disk room", false},
		{"there is room", Disk{Free: 1 << 39, Size: 1 << 40}, 0o700, false, "disk room", true},
		{"a network file system", Disk{Kind: "nfs", Network: true}, 0o700, false, "file system", false},
		{"a local one", Disk{Kind: "ext4"}, 0o700, false, "file system", true},
		{"an fsync has failed", Disk{}, 0o700, true, "writing", false},
		{"writing works", Disk{}, 0o700, false, "writing", true},
	} {
		t.Run(c.why, func(t *testing.T) {
			base := t.TempDir()
			must(t, os.Chmod(base, c.mode))
			tree := openTree(t, base, func(cfg *Config) {
				cfg.Form = emptyForm{}
				cfg.Disk = func(string) (Disk, error) { return c.disk, nil }
			})
			if c.broken {
				_ = tree.broke(errors.New("the disk is gone"))
			}
			for _, f := range tree.Diagnose(t.Context()) {
				if f.Subject == c.subject {
					if f.OK != c.ok || f.OK != (f.Hint == "") {
						t.Errorf("%+v, want OK %v", f, c.ok)
					}
					return
				}
			}
			t.Errorf("nothing about %s", c.subject)
		})
	}
}

func TestPingSeesThatTheDirectoryWasReplaced(t *testing.T) {
	base := t.TempDir() + "/tree"
	tree := openTree(t, base, nil)
	must(t, tree.Ping(t.Context()))
	must(t, os.Rename(base, base+".away"))
	if err := tree.Ping(t.Context()); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("moved away: %v", err)
	}
	must(t, os.Mkdir(base, 0o700))
	if err := tree.Ping(t.Context()); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("another one in its place: %v", err)
	}
}

func TestTheRealDiskIsKnown(t *testing.T) {
	d, err := diskOf(t.TempDir())
	must(t, err)
	if d.Size == 0 || d.Network || strings.Contains(d.Kind, " ") {
		t.Errorf("%+v", d)
	}
}
