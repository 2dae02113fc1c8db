package backup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// sameContent compares what is in a copy with what the frozen store said.
func sameContent(p *PartInfo, got tiers.Content) error {
	if err := sameRecords(p.Records, recordCounts(got.Records)); err != nil {
		return err
	}
	if got.Schema != p.Schema || got.Sequence != p.Sequence || got.Version != p.Version {
		return fmt.Errorf("%w: it is at schema %d, sequence %d, version %d; not at %d, %d, %d", tiers.ErrCorrupt,
			got.Schema, got.Sequence, got.Version, p.Schema, p.Sequence, p.Version)
	}
	return sameRows(p.Rows, got.Rows)
}

// sameRecords tells of the first category that differs, and how many more do.
func sameRecords(want, got []RecordCount) error {
	if slices.Equal(want, got) {
		return nil
	}
	type space struct{ namespace, category string }
	type counts struct{ want, got int64 }
	all := map[space]counts{}
	for _, n := range want {
		all[space{n.Namespace, n.Category}] = counts{want: n.Records}
	}
	for _, n := range got {
		c := all[space{n.Namespace, n.Category}]
		c.got = n.Records
		all[space{n.Namespace, n.Category}] = c
	}
	maps.DeleteFunc(all, func(_ space, c counts) bool { return c.want == c.got })
	spaces := slices.SortedFunc(maps.Keys(all), func(a, b space) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.category, b.category))
	})
	if len(spaces) == 0 {
		return fmt.Errorf("%w: its categories are not in order", tiers.ErrCorrupt)
	}
	first := spaces[0]
	text := fmt.Sprintf("it holds %d records of %q, not %d", all[first].got, first.category, all[first].want)
	if first.namespace != "" {
		text += fmt.Sprintf(", in the namespace %q", first.namespace)
	}
	if more := len(spaces) - 1; more > 0 {
		text += fmt.Sprintf("; %d more categories differ", more)
	}
	return fmt.Errorf("%w: %s", tiers.ErrCorrupt, text)
}

func sameRows(want, got map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if n, counted := got[name]; !counted || want[name] != n {
			return fmt.Errorf("%w: it has %d %s, not %d", tiers.ErrCorrupt, n, name, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, counted := want[name]; !counted {
			return fmt.Errorf("%w: it has %d %s, which the manifest does not count", tiers.ErrCorrupt, got[name], name)
		}
	}
	return nil
}
