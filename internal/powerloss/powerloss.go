// Package powerloss makes the directories that a power cut could have left.
//
// It reads the system calls of a process, as strace has recorded them, and
// follows what they did below one directory. Only what was synced is sure: the
// bytes of a file by fsync or fdatasync of that file, a name by fsync of the
// directory that it is in. Of everything else any part may be there: nothing,
// all, all up to an instant, or a random choice in blocks of 512 bytes to 4 KiB,
// with sizes cut and names in the order of their changes, in each directory by
// itself. That is less than the usual file systems promise.
//
//	r := powerloss.Recording{Trace: trace, Before: before, Base: base, Log: log}
//	err := r.Cuts(n, seed, func(c powerloss.Cut) error {
//		err := c.Write(dir) // the directory behind the cut
//		...                 // open the store there and compare it with c.Log
//	})
//
// What the process had been told, and so had told the world, it writes to a log,
// whose writes are in the trace as well.
package powerloss

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
)

// Recording is a run of a process that was traced.
type Recording struct {
	Trace  io.Reader // what strace -f -xx -s 16777216 -e trace=[Calls] wrote
	Before string    // a copy of the directory from before the run, all of it durable
	Base   string    // the directory itself, as the run left it: an absolute path without links
	Log    string    // file whose writes are kept, outside of Base
	// Restart says what a start of the machine does to a file that is there.
	Restart func(path string, data []byte) []byte
}

// Cut is a power cut.
type Cut struct {
	After int    // how many calls had returned
	Call  string // the last one of them
	Mode  Mode
	Log   []byte // what the process had written to its log

	im   image
	root *node
}

// Write makes the directory, which must not be there. It can be called once,
// before the function that got the cut returns.
func (c *Cut) Write(dir string) error { return c.im.write(c.root, dir) }

// Cuts cuts the power n times, and calls fn for each cut. Calls that change
// nothing on the disk are not cut at. With more cuts than calls each call has
// several, else a random choice of calls has one.
func (rec Recording) Cuts(n int, seed uint64, fn func(Cut) error) error {
	calls, err := readTrace(rec.Trace)
	if err != nil {
		return err
	}
	// A first pass finds which calls matter, and what memory has written.
	first, err := rec.replay()
	if err != nil {
		return err
	}
	var matter []int
	told, id := 0, 0
	for i, c := range calls {
		if err := first.step(c); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if first.disk.id != id || len(first.told) != told || c.name == "fsync" || c.name == "fdatasync" {
			matter = append(matter, i)
		}
		told, id = len(first.told), first.disk.id
	}
	if len(matter) == 0 {
		return fmt.Errorf("none of %d calls changes anything below %s", len(calls), rec.Base)
	}
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not a secret
	plan := map[int][]Mode{}
	order := rng.Perm(len(matter))
	for i := range n {
		at := matter[order[i%len(order)]]
		mode := Mode(rng.IntN(int(modes)))
		plan[at] = append(plan[at], mode)
	}
	second, err := rec.replay()
	if err != nil {
		return err
	}
	second.live = first.mapped()
	for i, c := range calls {
		if err := second.step(c); err != nil {
			return err
		}
		for _, mode := range plan[i] {
			last := second.disk.id
			if mode == InOrder || mode == Names {
				last -= min(last, rng.IntN(1+rng.IntN(40)))
			}
			cut := Cut{
				After: i + 1, Call: c.name, Mode: mode, Log: slices.Clone(second.told), root: second.disk.root,
				im: image{rng: rng, mode: mode, last: last, turn: rec.Restart},
			}
			if err := fn(cut); err != nil {
				return err
			}
		}
	}
	return nil
}

func (rec Recording) replay() (*replay, error) {
	r := &replay{base: rec.Base, log: rec.Log, fds: map[int64]*open{}}
	var err error
	r.disk.root, err = r.disk.load(rec.Before)
	return r, err
}
