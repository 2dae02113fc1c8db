package txn_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// TestWhatAListingCantReadCanBeReplaced lists a directory in which a file is
// damaged, and writes another value in its place: nothing has changed between.
func TestWhatAListingCantReadCanBeReplaced(t *testing.T) {
	for why, test := range map[string]struct {
		mended   bool // by somebody else, before the commit
		conflict bool
	}{
		"it is as it was":     {},
		"it was mended since": {mended: true, conflict: true},
	} {
		t.Run(why, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			w := open(t, dir, false)
			for _, name := range []string{"a", "b", "c"} {
				put(t, w.all["file"], name, "1")
			}
			write := func(text string) {
				n := 0
				err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
					if err == nil && filepath.Base(path) == "b.json" {
						n++
						err = os.WriteFile(path, []byte(text), 0o600)
					}
					return err
				})
				if err != nil || n != 1 {
					t.Fatalf("%d files: %v", n, err)
				}
			}
			write(`"bro`)
			err := w.Update(ctx, func(tx *txn.Tx) error {
				file := func(tx *txn.Tx) (good int, bad error) {
					for _, err := range tx.Tier("file").List(ctx, tiers.Query{Category: "c"}) {
						if err != nil {
							bad = errors.Join(bad, err)
						} else {
							good++
						}
					}
					return good, bad
				}
				looked := tx.Update(ctx, func(tx *txn.Tx) error {
					good, bad := file(tx)
					if good != 2 {
						t.Errorf("%d can be read", good)
					}
					return bad
				})
				if !errors.Is(looked, tiers.ErrCorrupt) {
					t.Errorf("it lists %v", looked)
				}
				if test.mended {
					write(`"mended"`)
				}
				put(t, tx.Tier("file"), "b", "2")
				if good, bad := file(tx); good != 3 || bad != nil {
					t.Errorf("once it was replaced, %d can be read beside %v", good, bad)
				}
				return nil
			}, txn.Options{})
			if errors.Is(err, tiers.ErrConflict) != test.conflict || err != nil && !test.conflict {
				t.Fatal(err)
			}
			want := "2"
			if test.conflict {
				want = "mended"
			}
			if got := loaded(t, w.all["file"], "b"); got != want {
				t.Errorf("stored is %q", got)
			}
		})
	}
}
