package tiertest

import (
	"slices"
)

// flaw is a way to break the contract, and the rule that has to notice.
type flaw struct {
	name string
	rule string
	make func(f *flawed) // replaces methods of a fresh handle
}

func flaws() []flaw {
	return slices.Concat(valueFlaws(), versionFlaws(), expiryFlaws(), listFlaws(), batchFlaws(), applyFlaws(), lifeFlaws(),
		reserveFlaws(), publishFlaws(), snapshotFlaws(), searchFlaws())
}
