// Package nearest finds what a misspelt name most likely meant.
package nearest

import (
	"slices"
	"strings"
)

// Name answers the candidate that differs least from name, capitals apart, or ""
// when none differs in at most two letters or a third of them.
func Name(name string, candidates []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := Distance(strings.ToLower(name), strings.ToLower(c), least); d < least && d < max(len(name), len(c)) {
			best, least = c, d
		}
	}
	return best
}

// Distance counts the insertions, deletions, replacements and swaps of
// neighbours between a and b, or answers limit when there are more than that.
func Distance(a, b string, limit int) int {
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
