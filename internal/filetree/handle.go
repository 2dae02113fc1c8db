package filetree

import (
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Everything below a tree is done through handles: open directories in which
// only plain names are used, so that nothing outside can be reached and a
// directory that is moved meanwhile changes nothing. Where the system has the
// calls for it they are used directly, since package os needs three times as
// many of them for the same, and elsewhere an os.Root does the work.

// Ident tells one state of a file from any other.
type Ident struct {
	Regular  bool // no directory, link or special file
	Size     int64
	ModTime  time.Time
	dev, ino uint64 // 0 where the system does not say
}

// Version is the modification time in microseconds, at least 1.
func (id Ident) Version() tiers.Version {
	return tiers.Version(max(id.ModTime.UnixMicro(), 1))
}

// TimeOf answers the time that a version stands for.
func TimeOf(v tiers.Version) time.Time {
	return tiers.FromMicro(int64(v)) //nolint:gosec // versions fit a JSON number
}

func (id Ident) sameFile(other Ident) bool { return id.dev == other.dev && id.ino == other.ino }

func (id Ident) same(other Ident) bool {
	return id.sameFile(other) && id.Size == other.Size && id.ModTime.Equal(other.ModTime)
}
