package config

import (
	"fmt"
	"slices"
	"strings"
)

// nearest answers the candidate that a misspelt name most likely meant, or "".
func nearest(name string, candidates []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := distance(strings.ToLower(name), strings.ToLower(c), least); d < least && d < max(len(name), len(c)) {
			best, least = c, d
		}
	}
	return best
}

// didYouMean is the end of a message about a wrong name: the nearest right one,
// or all when they are few.
func didYouMean(name string, candidates []string) string {
	if best := nearest(name, candidates); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	if len(candidates) > 0 && len(candidates) <= 12 {
		return "; it may be " + orList(candidates)
	}
	return ""
}

// orList joins words: "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours between a and b, or answers limit when there are more than that.
func distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
