package near

import (
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Key is a key within the category of a layer.
type Key struct{ Namespace, Name string }

// Entry is what a layer holds of a key. It never changes, but for what its value
// was decoded to.
type Entry struct {
	key    Key
	id     uint64
	record tiers.Record // its value is never changed and never handed out
	absent bool
	until  time.Time // keeps its monotonic part
	cost   int64

	decoded atomic.Pointer[any]
}

// Absent tells whether the entry says that there is no such key.
func (e *Entry) Absent() bool { return e.absent }

// Record answers the record, whose value must not be changed.
func (e *Entry) Record() tiers.Record { return e.record }

// Decoded answers what [Entry.Hold] was given last, or nil.
func (e *Entry) Decoded() any {
	if v := e.decoded.Load(); v != nil {
		return *v
	}
	return nil
}

// Hold keeps what the value was decoded to: of a type of which nobody can change a
// copy through another one. A value of another type takes its place.
func (e *Entry) Hold(v any) { e.decoded.Store(&v) }

// overhead is about what an entry needs beside its key and its value. A value counts
// twice, since what it was decoded to is held as well.
const overhead = 320
