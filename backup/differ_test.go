package backup

import (
	"errors"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

func TestWhatDiffersFromTheManifestIsSaidInWords(t *testing.T) {
	of := func(category string, n int64) RecordCount { return RecordCount{Category: category, Records: n} }
	for _, c := range []struct {
		why       string
		want, got []RecordCount
		says      string
	}{
		{"one is lost", []RecordCount{of("a", 2)}, []RecordCount{of("a", 1)}, `it holds 1 records of "a", not 2`},
		{"a category is lost", []RecordCount{of("a", 2), of("b", 1)}, []RecordCount{of("a", 2)}, `it holds 0 records of "b", not 1`},
		{"a category is too many", nil, []RecordCount{{Namespace: "n", Category: "a", Records: 2}}, `it holds 2 records of "a", not 0, in the namespace "n"`},
		{"several differ", []RecordCount{of("a", 2), of("b", 1)}, nil, `it holds 0 records of "a", not 2; 1 more categories differ`},
		{"a manifest lists them twice", []RecordCount{of("a", 2), of("a", 2)}, []RecordCount{of("a", 2)}, "not in order"},
	} {
		if err := sameRecords(c.want, c.got); !errors.Is(err, tiers.ErrCorrupt) || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s", c.why, err, c.says)
		}
	}
	for _, c := range []struct {
		why       string
		want, got map[string]int64
		says      string
	}{
		{"one less", map[string]int64{"files": 2}, map[string]int64{"files": 1}, "it has 1 files, not 2"},
		{"none of what there was none of", map[string]int64{"files": 0}, nil, "it has 0 files, not 0"},
		{"something more", nil, map[string]int64{"files": 0}, "it has 0 files, which the manifest does not count"},
	} {
		if err := sameRows(c.want, c.got); !errors.Is(err, tiers.ErrCorrupt) || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s", c.why, err, c.says)
		}
	}
}
