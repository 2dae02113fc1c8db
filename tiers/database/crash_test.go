package database

import (
	"testing"

	"github.com/sagestore/sagestore/internal/crashtest"
)

func TestNothingAcknowledgedIsLostByAKill(t *testing.T) { crashtest.Kill(t, crashing) }

func TestAFullDiskIsSaidAndSurvived(t *testing.T) { crashtest.FullDisk(t, crashing) }
