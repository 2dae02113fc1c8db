package filetree

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Stripes is how many locks the keys of a tree share.
const Stripes = 64

const lockDir = ".lock"

// stripes are the locks that order changes of one key, between the goroutines
// of a process by a channel and between processes by flock, which is held by an
// open file. Whoever waits for the lock holds the turnstile meanwhile, so that
// a process with many callers can't starve one with few.
type stripes struct {
	root  *os.Root
	slots [Stripes]slot
}

type slot struct {
	sem  chan struct{}
	turn *os.File // opened at first use, by the holder of sem
	lock *os.File
	room bool // the lock's file is known to have room for a version
}

func newStripes(root *os.Root) *stripes {
	s := &stripes{root: root}
	for i := range s.slots {
		s.slots[i].sem = make(chan struct{}, 1)
	}
	return s
}

// stripeOf answers the number of a key's lock. It is the same in every process.
func stripeOf(k tiers.Key) int {
	h := fnv.New64a()
	for _, part := range []string{k.Namespace, k.Category, k.Name} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return int(h.Sum64() % Stripes)
}

// acquire takes lock i, unless the context ends first.
func (s *stripes) acquire(ctx context.Context, i int) (release func(), err error) {
	sl := &s.slots[i]
	select {
	case sl.sem <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := s.take(ctx, sl, i); err != nil {
		<-sl.sem
		return nil, err
	}
	return s.release(sl), nil
}

// try takes lock i if nobody has it.
func (s *stripes) try(i int) (release func(), ok bool, err error) {
	sl := &s.slots[i]
	select {
	case sl.sem <- struct{}{}:
	default:
		return nil, false, nil
	}
	if err = s.open(sl, i); err == nil {
		if ok, err = tryLock(sl.turn); ok {
			ok, err = tryLock(sl.lock)
			err = errors.Join(err, unlock(sl.turn))
			if ok {
				sl.reserve()
			}
		}
	}
	if !ok || err != nil {
		<-sl.sem
		return nil, false, err
	}
	return s.release(sl), true, nil
}

func (s *stripes) release(sl *slot) func() {
	return func() {
		_ = unlock(sl.lock) // fails only for a closed file, whose lock is gone with it
		<-sl.sem
	}
}

// A stripe's file holds the highest version that was removed under its lock. It
// tells a saver that took its version before it took the lock, and finds nothing
// under it, whether there was a higher one meanwhile. So it matters only as long
// as that saver lives, and is not synced.

func (s *stripes) setRemoved(i int, v tiers.Version) error {
	if before, err := s.removed(i); err != nil || before >= v {
		return err
	}
	_, err := s.slots[i].lock.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(v)), 0)
	return err
}

func (s *stripes) removed(i int) (tiers.Version, error) {
	var b [8]byte
	if _, err := s.slots[i].lock.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return tiers.Version(binary.BigEndian.Uint64(b[:])), nil
}

func (s *stripes) take(ctx context.Context, sl *slot, i int) error {
	if err := s.open(sl, i); err != nil {
		return err
	}
	if err := await(ctx, sl.turn); err != nil {
		return err
	}
	err := errors.Join(await(ctx, sl.lock), unlock(sl.turn))
	if err == nil {
		sl.reserve()
	}
	return err
}

// reserve makes room in the lock's file for what a removal will write, so that
// removing works on a disk that is full by then. The caller has the lock.
func (sl *slot) reserve() {
	if sl.room {
		return
	}
	var b [8]byte
	n, err := sl.lock.ReadAt(b[:], 0)
	if errors.Is(err, io.EOF) {
		_, err = sl.lock.WriteAt(b[n:], int64(n))
	}
	sl.room = err == nil // else the removal will say it
}

// open opens the files of a lock. The caller has its channel.
func (s *stripes) open(sl *slot, i int) (err error) {
	if sl.turn == nil {
		if sl.turn, err = openLock(s.root, fmt.Sprintf("%s/%02d.turn", lockDir, i)); err != nil {
			return err
		}
	}
	if sl.lock == nil {
		sl.lock, err = openLock(s.root, fmt.Sprintf("%s/%02d", lockDir, i))
	}
	return err
}

// openLock opens a file to lock; it is made when it is not there.
func openLock(root *os.Root, name string) (*os.File, error) {
	f, err := openOwn(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := root.Mkdir(lockDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		f, err = openOwn(root, name)
	}
	return f, err
}

// await locks the file, looking again and again, because a wait inside the
// system could not be called off.
func await(ctx context.Context, f *os.File) error { return awaitBy(ctx, f, tryLock) }

func awaitBy(ctx context.Context, f *os.File, try func(*os.File) (bool, error)) error {
	const shortest, longest = 50 * time.Microsecond, 2 * time.Millisecond
	for pause := shortest; ; pause = min(2*pause, longest) {
		got, err := try(f)
		if err != nil || got {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (s *stripes) close() error {
	var errs []error
	for i := range s.slots {
		for _, f := range []*os.File{s.slots[i].turn, s.slots[i].lock} {
			if f != nil {
				errs = append(errs, f.Close())
			}
		}
	}
	return errors.Join(errs...)
}
