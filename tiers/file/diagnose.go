package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// Diagnose adds to what the tree finds the records that can't be read, such as
// those that an edit by hand broke: it reads every one.
func (t *Tier) Diagnose(ctx context.Context) []tiers.Finding {
	found := t.Tree.Diagnose(ctx)
	broken, first := 0, ""
	for space, err := range t.Spaces(ctx) {
		if err != nil {
			return append(found, tiers.Finding{Subject: "records", Message: err.Error(), Hint: "look at the directory and its mode"})
		}
		for _, err := range t.List(ctx, tiers.Query{Namespace: space.Namespace, Category: space.Category}) {
			if !errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, tiers.ErrTooLarge) {
				continue // readable, or named by the tree already
			}
			if broken++; broken == 1 {
				first = withoutHint(err)
			}
		}
	}
	f := tiers.Finding{OK: true, Subject: "records", Message: "every record can be read"}
	if broken > 0 {
		f.OK, f.Message = false, fmt.Sprintf("%d can't be read, such as %s", broken, first)
		f.Hint = "mend each file, or delete its record to give it up"
	}
	return append(found, f)
}

// withoutHint leaves out what Diagnose says for all of them.
func withoutHint(err error) string {
	e, ok := errors.AsType[*tiers.Error](err)
	if !ok || e.Err == nil {
		return err.Error()
	}
	return e.Err.Error()
}
