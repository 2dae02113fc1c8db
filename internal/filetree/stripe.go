package filetree

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
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
	return func() {
		_ = unlock(sl.lock) // fails only for a closed file, whose lock is gone with it
		<-sl.sem
	}, nil
}

func (s *stripes) take(ctx context.Context, sl *slot, i int) error {
	if sl.lock == nil {
		var err error
		if sl.turn, err = openLock(s.root, fmt.Sprintf("%s/%02d.turn", lockDir, i)); err != nil {
			return err
		}
		if sl.lock, err = openLock(s.root, fmt.Sprintf("%s/%02d", lockDir, i)); err != nil {
			return errors.Join(err, sl.turn.Close())
		}
	}
	if err := await(ctx, sl.turn); err != nil {
		return err
	}
	return errors.Join(await(ctx, sl.lock), unlock(sl.turn))
}

// openLock opens a file to lock; it is made when it is not there.
func openLock(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := root.Mkdir(lockDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		f, err = root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	}
	return f, err
}

// await locks the file, looking again and again, because a wait inside the
// system could not be called off.
func await(ctx context.Context, f *os.File) error {
	const shortest, longest = 50 * time.Microsecond, 2 * time.Millisecond
	for pause := shortest; ; pause = min(2*pause, longest) {
		got, err := tryLock(f)
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
