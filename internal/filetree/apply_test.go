package filetree

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// oneForm finds the same record everywhere, unless it has no version.
type oneForm struct {
	noForm
	record tiers.Record
}

func (f oneForm) Find(*Dir, string, bool) (Found, error) {
	if f.record.Version == 0 {
		return Found{}, nil
	}
	return Found{Record: f.record, Files: []File{{Name: "k"}}}, nil
}

// Whoever applied a record may have been killed between the rename and the sync
// of the directory; the one that comes after has to do what is left.
func TestWhatIsAppliedAlreadyIsSyncedAgain(t *testing.T) {
	for _, c := range []struct {
		why     string
		stored  tiers.Version
		version tiers.Version
		deleted bool
		over    tiers.Cond
		dir     string
	}{
		{"it is there", 5, 5, false, tiers.Cond{}, "config"},
		{"it is there, over another one", 5, 5, false, tiers.If(4), "config"},
		{"a newer one is there", 6, 5, false, tiers.Cond{}, "config"},
		{"it is gone", 0, 5, true, tiers.Cond{}, "config"},
		{"it is gone, over another one", 0, 5, true, tiers.If(4), "config"},
		{"its directory is gone as well", 0, 5, true, tiers.Cond{}, ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			base := t.TempDir()
			if c.dir != "" {
				must(t, makeBase(filepath.Join(base, c.dir), false))
			}
			tree := openTree(t, base, func(cf *Config) { cf.Form = oneForm{record: tiers.Record{Version: c.stored}} })
			r := tiers.Record{Key: tiers.Key{Category: "config", Name: "k"}, Version: c.version, Deleted: c.deleted}
			over := []tiers.Cond{c.over}
			must(t, tree.Apply(t.Context(), []tiers.Record{r}, over))
			// A sync that does not end shows who waits for it.
			tree.syncs.dirs["config"] = &dirSync{running: syncsAtOnce}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := tree.Apply(ctx, []tiers.Record{r}, over); !errors.Is(err, tiers.ErrCommitUnknown) {
				t.Errorf("apply answers %v without the sync", err)
			}
			delete(tree.syncs.dirs, "config")
		})
	}
}
