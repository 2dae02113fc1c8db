package config

import (
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/internal/nearest"
)

// didYouMean is the end of a message about a wrong name: the nearest right one,
// or all when they are few.
func didYouMean(name string, candidates []string) string {
	if best := nearest.Name(name, candidates); best != "" {
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
