package spill

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func value(n int, fill byte) []byte { return bytes.Repeat([]byte{fill}, n) }

// closed closes and reports.
func closed(t interface{ Error(args ...any) }, c io.Closer) {
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// read reads an extent that nobody frees meanwhile.
func read[O any](f *File[O], x Extent[O]) ([]byte, error) {
	f.Pin(x)
	defer f.Unpin(x)
	return f.Read(x)
}

func TestFileIsPrivateAndHasNoName(t *testing.T) {
	dir := t.TempDir()
	f := New[int](dir, 1<<20)
	defer closed(t, f)
	if _, err := f.Append([][]byte{value(10, 'a')}, nil); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the directory holds %v, %v; want nothing", names, err)
	}
	st, err := f.file.Load().Stat()
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, want 0600", st.Mode())
	}
}

func TestNothingIsMadeBeforeTheFirstValue(t *testing.T) {
	dir := t.TempDir() + "/later"
	f := New[int](dir, 1<<20)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}

func TestLimitIsKeptAndFreedRoomIsUsedAgain(t *testing.T) {
	f := New[int](t.TempDir(), 64<<10)
	defer closed(t, f)
	var all []Extent[int]
	for {
		x, err := f.Append([][]byte{value(1000, 'a')}, []int{len(all)})
		if err != nil {
			if !errors.Is(err, ErrLimit) {
				t.Fatal(err)
			}
			break
		}
		all = append(all, x...)
	}
	if len(all) < 60 {
		t.Errorf("only %d values of 1000 bytes fit into 64 KiB", len(all))
	}
	for _, x := range all {
		f.Free(x)
	}
	for i := range 60 {
		if _, err := f.Append([][]byte{value(1000, 'b')}, []int{i}); err != nil {
			t.Fatalf("value %d after everything was freed: %v", i, err)
		}
	}
}

func TestLargeValuesSpanSlots(t *testing.T) {
	f := New[int](t.TempDir(), 64<<10)
	defer closed(t, f)
	big := value(30<<10, 'x')
	x, err := f.Append([][]byte{value(5, 'a'), big, value(5, 'b')}, []int{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]byte{value(5, 'a'), big, value(5, 'b')} {
		if got, err := read(f, x[i]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("value %d: %d bytes, %v", i, len(got), err)
		}
	}
	if _, err := f.Append([][]byte{value(70<<10, 'x')}, nil); !errors.Is(err, ErrLimit) {
		t.Errorf("a value above the limit: %v", err)
	}
}

func TestPinnedBytesStay(t *testing.T) {
	f := New[int](t.TempDir(), 8<<10)
	defer closed(t, f)
	x, err := f.Append([][]byte{value(4096, 'a')}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Pin(x[0])
	f.Free(x[0])
	for range 4 {
		y, err := f.Append([][]byte{value(4096, 'b')}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Free(y[0])
	}
	if got, err := f.Read(x[0]); err != nil || got[0] != 'a' {
		t.Errorf("a pinned value was overwritten: %v", err)
	}
	f.Unpin(x[0])
}

func TestFlippedByteIsDamage(t *testing.T) {
	f := New[int](t.TempDir(), 1<<20)
	defer closed(t, f)
	x, err := f.Append([][]byte{value(100, 'a')}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.file.Load().WriteAt([]byte{'b'}, x[0].off+50); err != nil {
		t.Fatal(err)
	}
	if _, err := read(f, x[0]); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

func TestFullDiskLosesNothingAndWorkGoesOn(t *testing.T) {
	f := New[int](t.TempDir(), 1<<20)
	defer closed(t, f)
	before, err := f.Append([][]byte{value(100, 'a')}, nil)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no /dev/full here")
	}
	defer closed(t, full)
	disk := f.file.Swap(full)
	for range 3 {
		if got, err := f.Append([][]byte{value(100, 'b'), value(100, 'c')}, nil); !errors.Is(err, syscall.ENOSPC) || len(got) != 0 {
			t.Errorf("append to a full disk: %d extents, %v", len(got), err)
		}
	}
	f.file.Store(disk)
	if live, _ := f.Usage(); live != 100 {
		t.Errorf("%d bytes are live, want 100", live)
	}
	after, err := f.Append([][]byte{value(100, 'd')}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x    Extent[int]
		want byte
	}{{before[0], 'a'}, {after[0], 'd'}} {
		if got, err := read(f, c.x); err != nil || got[0] != c.want {
			t.Errorf("value %c: %v", c.want, err)
		}
	}
}

func TestUseAfterClose(t *testing.T) {
	f := New[int](t.TempDir(), 1<<20)
	x, err := f.Append([][]byte{value(100, 'a')}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := read(f, x[0]); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := f.Append([][]byte{value(1, 'a')}, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	f.Free(x[0])
}

// TestFileAgreesWithAMap appends, frees, moves and reads at random: what is read
// is what was written, no two values overlap, and the limit holds.
func TestFileAgreesWithAMap(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 128 << 10
		f := New[int](dir, limit)
		defer closed(t, f)
		type kept struct {
			x    Extent[int]
			want []byte
		}
		model := map[int]kept{}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 600), rapid.IntRange(1, 9000)), 1, 8).Draw(t, "sizes")
				var values [][]byte
				var owners []int
				for _, n := range sizes {
					next++
					values = append(values, value(n, byte(next)))
					owners = append(owners, next)
				}
				got, err := f.Append(values, owners)
				if err != nil && !errors.Is(err, ErrLimit) || (err == nil) != (len(got) == len(values)) {
					t.Fatalf("%d of %d extents, %v", len(got), len(values), err)
				}
				for i, x := range got {
					model[owners[i]] = kept{x, values[i]}
				}
			},
			"free": func(t *rapid.T) {
				for id, k := range model {
					if rapid.Bool().Draw(t, "this") {
						f.Free(k.x)
						delete(model, id)
					}
				}
			},
			"compact": func(t *rapid.T) {
				sparse, ok := f.Sparse(rapid.Bool().Draw(t, "pressed"))
				if !ok {
					return
				}
				for _, id := range sparse.Owners {
					k, there := model[id]
					if !there || !sparse.Holds(k.x) {
						continue
					}
					x, err := f.Move([][]byte{k.want}, []int{id})
					if err != nil {
						f.Return(sparse)
						return
					}
					f.Free(k.x)
					model[id] = kept{x[0], k.want}
				}
			},
			"": func(t *rapid.T) {
				var live int64
				var order []Extent[int]
				for id, k := range model {
					live += int64(len(k.want))
					if got, err := read(f, k.x); err != nil || !bytes.Equal(got, k.want) {
						t.Fatalf("value %d: %d of %d bytes, %v", id, len(got), len(k.want), err)
					}
					order = append(order, k.x)
				}
				slices.SortFunc(order, func(a, b Extent[int]) int { return cmp.Compare(a.off, b.off) })
				for i := 1; i < len(order); i++ {
					if order[i-1].off+int64(order[i-1].n) > order[i].off {
						t.Fatalf("two values overlap at %d", order[i].off)
					}
				}
				if got, taken := f.Usage(); got != live || taken > limit+f.slot {
					t.Fatalf("usage is %d live, %d taken; want %d and at most %d", got, taken, live, limit+f.slot)
				}
			},
		})
	})
}

func TestCompactionKeepsTheFileWithinTwiceOfWhatIsLive(t *testing.T) {
	f := New[int](t.TempDir(), 64<<20)
	defer closed(t, f)
	model := map[int]Extent[int]{}
	var ids []int
	for round := range 200 {
		var values [][]byte
		ids = ids[:0]
		for i := range 100 {
			values = append(values, value(1000, byte(i)))
			ids = append(ids, (round*100+i*37)%1000)
		}
		got, err := f.Append(values, ids)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if old, ok := model[id]; ok {
				f.Free(old)
			}
			model[id] = got[i]
		}
		for {
			sparse, ok := f.Sparse(false)
			if !ok {
				break
			}
			for _, id := range sparse.Owners {
				if x := model[id]; sparse.Holds(x) {
					b, err := read(f, x)
					if err != nil {
						t.Fatal(err)
					}
					y, err := f.Move([][]byte{b}, []int{id})
					if err != nil {
						t.Fatal(err)
					}
					f.Free(x)
					model[id] = y[0]
				}
			}
		}
	}
	live, taken := f.Usage()
	if most := 2*live + 18*f.slot; taken > most {
		t.Errorf("%d bytes are taken for %d live ones", taken, live)
	}
}

func TestSlotsGiveTheLowestRun(t *testing.T) {
	var s slots
	for i, n := range []int{3, 70, 1} {
		if got, want := s.take(n), []int{0, 3, 73}[i]; got != want {
			t.Errorf("take(%d) = %d, want %d", n, got, want)
		}
	}
	s.free(3, 70)
	for _, c := range []struct{ n, want int }{{71, 74}, {2, 3}, {64, 5}, {4, 69}} {
		if got := s.take(c.n); got != c.want {
			t.Errorf("take(%d) = %d, want %d", c.n, got, c.want)
		}
	}
	s.free(74, 71)
	if s.end != 74 || s.used != 74 {
		t.Errorf("end %d, used %d; want 74 of both", s.end, s.used)
	}
}
