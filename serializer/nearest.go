package serializer

import "strings"

// nearest answers the name that differs least from word, capitals apart, if any
// differs in no more than two letters or a third of them.
func nearest(word string, names []string) (string, bool) {
	best, least := "", max(2, len(word)/3)+1
	for _, n := range names {
		if d := distance(strings.ToLower(word), n); d < least {
			best, least = n, d
		}
	}
	return best, best != ""
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour.
func distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j]+cost, prev[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
