package txn_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/tiertest"
	"github.com/sagestore/sagestore/txn"
)

// What a transaction saves over a record whose time is nearly up stays, although
// the record is gone by the time when the row reaches the tier.
func TestACommitOutlivesWhatItReplaces(t *testing.T) {
	t.Parallel()
	ctx, dir, clock := t.Context(), t.TempDir(), tiertest.NewClock(start)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := database.Open(ctx, database.Config{Path: filepath.Join(dir, "sage.db"), Clock: clock})
	must(err)
	files, err := file.Open(ctx, file.Config{BasePath: filepath.Join(dir, "files"), Clock: clock})
	must(err)
	j, err := txn.Journal(ctx, files, db, txn.Config{Tier: "file", Clock: clock})
	must(err)
	e, err := txn.New(txn.EngineConfig{
		Members:   []txn.Member{{Name: "file", Tier: j}},
		Committer: db, System: db, Clock: clock,
	})
	must(err)
	short := rec("k", "old")
	short.TTL = time.Minute
	_, err = j.Save(ctx, short, tiers.Cond{})
	must(err)
	must(e.Update(ctx, func(tx *txn.Tx) error {
		_, err := tx.Tier("file").Save(ctx, rec("k", "new"), tiers.Cond{})
		clock.Advance(time.Minute - time.Second)
		return err
	}, txn.Options{}))
	clock.Advance(2 * time.Second) // before the row is applied, or after
	_, err = j.Save(ctx, rec("k", "never"), tiers.If(1))
	if got := shown(t, j, "k"); got != "new" {
		t.Errorf("it holds %q after a save that waited for the row: %v", got, err)
	}
	must(e.Close(ctx))
	must(j.Close(ctx))
	must(db.Close(ctx))
}
