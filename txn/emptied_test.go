package txn_test

import (
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// A space whose last records a commit has removed is empty before the rows have
// reached the tier as well.
func TestASpaceThatACommitEmptiedIsNotThere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := open(t, t.TempDir(), false)
	for _, tier := range []string{"file", "cache"} {
		j := w.all[tier]
		kept, emptied := tiers.Key{Category: "kept", Name: "k"}, tiers.Key{Category: "emptied", Name: "k"}
		for range 20 { // some rows are applied early
			for _, k := range []tiers.Key{kept, emptied, {Category: "kept", Name: "l"}} {
				if _, err := j.Save(ctx, tiers.Record{Key: k, Value: []byte("1"), Codec: "json", Schema: 1}, tiers.Cond{}); err != nil {
					t.Fatal(err)
				}
			}
			err := w.Update(ctx, func(tx *txn.Tx) error {
				for _, k := range []tiers.Key{kept, emptied} {
					if _, err := tx.Tier(tier).Delete(ctx, k, tiers.Cond{}); err != nil {
						return err
					}
				}
				return nil
			}, txn.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for s, err := range j.Spaces(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, s.Category)
			}
			if len(got) != 1 || got[0] != "kept" {
				t.Fatalf("%s has the spaces %q", tier, got)
			}
		}
	}
}
