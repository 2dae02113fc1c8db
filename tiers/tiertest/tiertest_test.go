package tiertest

import "testing"

func TestHonestTierPasses(t *testing.T) { Run(t, honest()) }
