// Package spill keeps values of the memory tier that do not fit into memory: in
// one private file that has no name, is gone with the process and is indexed by
// its user, in memory.
//
// The file is a row of equal slots. Values are appended to the slot that is
// being filled, many with one write; a value larger than a slot gets a run of
// its own. A slot whose values were all freed is used again. One that is mostly
// free is found by [File.Sparse]; its user moves what is left, and so the file
// stays within about twice of what is alive in it, and always within its limit.
package spill

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"
	"sync/atomic"
)

// ErrLimit says that the file may not grow any further.
var ErrLimit = errors.New("the spill file has reached its limit")

// ErrDamaged says that what was read is not what was written.
var ErrDamaged = errors.New("the spill file's checksum does not match")

const (
	maxSlot = 256 << 10
	minSlot = 4 << 10
	// trim is how many free slots at the end are cut off the file.
	trim = 64
)

// File is the spill file; O is what its user calls the owner of a value. It is
// made on the first append. All methods are safe for concurrent use.
type File[O any] struct {
	dir   string
	limit int64 // in bytes
	slot  int64 // size of a slot in bytes

	appending sync.Mutex // held over a write; never taken while mu is held
	buf       []byte

	file atomic.Pointer[os.File]

	mu       sync.Mutex
	closed   bool
	slots    slots
	size     int64 // of the file, in slots that were written
	segments map[*segment[O]]struct{}
	filling  *segment[O]
	idle     []*segment[O] // dead, but perhaps still being read
	live     int64         // bytes of values
}

// segment is a run of slots.
type segment[O any] struct {
	first, n int
	fill     int64 // bytes handed out
	live     int64 // bytes in use
	pins     atomic.Int32
	owners   []O // of every value ever appended, dead ones too
	stuck    bool
}

// Extent is where a value is. The zero Extent is nowhere.
type Extent[O any] struct {
	seg *segment[O]
	off int64
	n   int
	sum uint32
}

// IsZero tells whether the extent is nowhere.
func (x Extent[O]) IsZero() bool { return x.seg == nil }

// Len answers the size of the value in bytes.
func (x Extent[O]) Len() int { return x.n }

// New prepares a file of at most limit bytes in dir; it touches no disk.
func New[O any](dir string, limit int64) *File[O] {
	slot := min(max(limit/64/minSlot*minSlot, minSlot), maxSlot)
	return &File[O]{dir: dir, limit: limit, slot: slot, segments: map[*segment[O]]struct{}{}}
}

// Append writes values and answers where they are. When it fails, the extents
// that it answers are those of the values that it still could write. The owners
// align with the values by index, or are nil and follow through Own.
func (f *File[O]) Append(values [][]byte, owners []O) ([]Extent[O], error) {
	return f.write(values, owners, 0)
}

// Move is Append for what [File.Sparse] named: it may exceed the limit by one
// slot, which comes back when the sparse one is empty.
func (f *File[O]) Move(values [][]byte, owners []O) ([]Extent[O], error) {
	return f.write(values, owners, 1)
}

func (f *File[O]) write(values [][]byte, owners []O, extra int) ([]Extent[O], error) {
	f.appending.Lock()
	defer f.appending.Unlock()
	out := make([]Extent[O], 0, len(values))
	for len(out) < len(values) {
		from := len(out)
		batch, err := f.reserve(values[from:], owners[min(from, len(owners)):], extra)
		if err != nil {
			return out, err
		}
		if err := f.put(values[from:from+len(batch)], batch); err != nil {
			for _, x := range batch {
				f.Free(x)
			}
			f.abandon(batch[0].seg)
			return out, err
		}
		out = append(out, batch...)
	}
	return out, nil
}

// reserve hands out room in one segment for at least the first value.
func (f *File[O]) reserve(values [][]byte, owners []O, extra int) ([]Extent[O], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, os.ErrClosed
	}
	seg := f.filling
	if size := int64(len(values[0])); seg == nil || seg.fill+size > f.slot {
		fresh, err := f.segment(size, extra)
		if err != nil {
			return nil, err
		}
		seg = fresh
		if seg.n == 1 {
			f.seal()
			f.filling = seg
		}
	}
	batch := make([]Extent[O], 0, len(values))
	for i, v := range values {
		if seg.fill+int64(len(v)) > int64(seg.n)*f.slot {
			break
		}
		x := Extent[O]{seg: seg, off: int64(seg.first)*f.slot + seg.fill, n: len(v)}
		seg.fill += int64(len(v))
		seg.live += int64(len(v))
		f.live += int64(len(v))
		if i < len(owners) {
			seg.owners = append(seg.owners, owners[i])
		}
		batch = append(batch, x)
		if seg.n > 1 {
			break // a run belongs to its one value
		}
	}
	return batch, nil
}

// segment takes slots for at least size bytes.
func (f *File[O]) segment(size int64, extra int) (*segment[O], error) {
	f.reclaim()
	n := int(max((size+f.slot-1)/f.slot, 1))
	if int64(f.slots.used+n-extra)*f.slot > f.limit {
		return nil, ErrLimit
	}
	seg := &segment[O]{first: f.slots.take(n), n: n}
	f.size = max(f.size, int64(f.slots.end))
	f.segments[seg] = struct{}{}
	return seg, nil
}

// put writes a batch, whose extents follow each other, in one piece.
func (f *File[O]) put(values [][]byte, batch []Extent[O]) error {
	file, err := f.open()
	if err != nil {
		return err
	}
	out := values[0]
	if len(values) > 1 {
		f.buf = f.buf[:0]
		for _, v := range values {
			f.buf = append(f.buf, v...)
		}
		out = f.buf
	}
	for i, v := range values {
		batch[i].sum = crc32.Checksum(v, castagnoli())
	}
	if _, err := file.WriteAt(out, batch[0].off); err != nil {
		return fmt.Errorf("write spill file: %w", err)
	}
	return nil
}

// open makes the file: private, and without a name from the start.
func (f *File[O]) open() (*os.File, error) {
	if file := f.file.Load(); file != nil {
		return file, nil
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the spill directory: %w", err)
	}
	file, err := os.CreateTemp(f.dir, ".sagestore-spill-*") // with mode 0600
	if err != nil {
		return nil, fmt.Errorf("make the spill file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("unlink the spill file: %w", err), file.Close())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.Join(os.ErrClosed, file.Close())
	}
	f.file.Store(file)
	return file, nil
}

// abandon ends the filling of a segment that could not be written.
func (f *File[O]) abandon(seg *segment[O]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.filling == seg {
		f.seal()
	}
}

// seal ends the filling of the current segment.
func (f *File[O]) seal() {
	if f.filling != nil && f.filling.live == 0 {
		f.idle = append(f.idle, f.filling)
	}
	f.filling = nil
}

// Own tells who the owner of an extent is.
func (f *File[O]) Own(x Extent[O], owner O) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.seg.owners = append(x.seg.owners, owner)
}

// Pin keeps the extent's bytes where they are until Unpin. The caller makes sure
// that the extent has not been freed yet.
func (f *File[O]) Pin(x Extent[O]) { x.seg.pins.Add(1) }

// Unpin ends a Pin.
func (f *File[O]) Unpin(x Extent[O]) { x.seg.pins.Add(-1) }

// Read answers the value of a pinned extent in a new slice.
func (f *File[O]) Read(x Extent[O]) ([]byte, error) {
	file := f.file.Load()
	if file == nil {
		return nil, os.ErrClosed
	}
	b := make([]byte, x.n)
	if _, err := file.ReadAt(b, x.off); err != nil {
		return nil, fmt.Errorf("read spill file: %w", err)
	}
	if crc32.Checksum(b, castagnoli()) != x.sum {
		return nil, ErrDamaged
	}
	return b, nil
}

// Free gives the extent's room back.
func (f *File[O]) Free(x Extent[O]) {
	if x.n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x.seg.live -= int64(x.n)
	f.live -= int64(x.n)
	if x.seg.live == 0 && x.seg != f.filling {
		f.idle = append(f.idle, x.seg)
	}
}

// reclaim takes back the slots of dead segments that nobody reads any more.
func (f *File[O]) reclaim() {
	if f.filling != nil && f.filling.fill >= f.slot-f.slot/64 {
		f.seal()
	}
	keep := f.idle[:0]
	for _, seg := range f.idle {
		if seg.pins.Load() > 0 {
			keep = append(keep, seg)
			continue
		}
		f.slots.free(seg.first, seg.n)
		delete(f.segments, seg)
	}
	clear(f.idle[len(keep):])
	f.idle = keep
	if file := f.file.Load(); file != nil && f.size-int64(f.slots.end) >= trim {
		if file.Truncate(int64(f.slots.end)*f.slot) == nil {
			f.size = int64(f.slots.end)
		}
	}
}

// Sparse answers the owners of a segment that is mostly free, when enough of the
// file is: more than half of it, or with pressed set anything at all. Who still
// has a value there, which [Sparse.Holds] tells, is moved elsewhere.
func (f *File[O]) Sparse(pressed bool) (s Sparse[O], ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaim()
	taken := int64(f.slots.used) * f.slot
	if !pressed && taken < 2*f.live+16*f.slot {
		return s, false
	}
	var best *segment[O]
	for seg := range f.segments {
		if seg == f.filling || seg.n > 1 || seg.stuck || seg.live == 0 || seg.live > f.slot-f.slot/8 {
			continue
		}
		if best == nil || seg.live < best.live {
			best = seg
		}
	}
	if best == nil {
		return s, false
	}
	best.stuck = true // not named twice, see Return
	return Sparse[O]{seg: best, Owners: append([]O(nil), best.owners...)}, true
}

// Sparse is a segment whose values should move.
type Sparse[O any] struct {
	seg    *segment[O]
	Owners []O
}

// Holds tells whether the extent lies in the segment.
func (s Sparse[O]) Holds(x Extent[O]) bool { return x.seg == s.seg }

// Return makes a segment that could not be emptied eligible again.
func (f *File[O]) Return(s Sparse[O]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.seg.stuck = false
}

// Usage answers the bytes of the values and those of the slots they take.
func (f *File[O]) Usage() (live, taken int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live, int64(f.slots.used) * f.slot
}

// Limit answers the most bytes that one value, and all together, may have.
func (f *File[O]) Limit() int64 { return f.limit / f.slot * f.slot }

// Close gives the disk its room back. A second Close returns nil.
func (f *File[O]) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	file := f.file.Load()
	if file == nil {
		return nil
	}
	return file.Close()
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
