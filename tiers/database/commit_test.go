package database

import (
	"testing"

	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestCommits(t *testing.T) {
	t.Parallel()
	tiertest.RunCommit(t, openIn)
}

func TestCommitsInMemory(t *testing.T) {
	t.Parallel()
	tiertest.RunCommit(t, openMemory)
}
