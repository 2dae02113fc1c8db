package filetree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// dirSyncs makes changes of directories durable. Callers that come while as many
// syncs of a directory as useful are under way share the next one: it begins after
// their changes, so it covers all of them.
type dirSyncs struct {
	root *os.Root
	top  *handle
	mu   sync.Mutex
	dirs map[string]*dirSync // those being synced now
	work sync.WaitGroup
}

// syncsAtOnce is how many syncs of a directory are under way at a time. With one,
// those who share it set out together, and the disk rests until they are back.
const syncsAtOnce = 2

// dirSync is a directory that is being synced; next is who came meanwhile.
type dirSync struct {
	running int
	next    *shared
}

// shared is one sync that several callers wait for.
type shared struct {
	done chan struct{}
	err  error
}

// sync returns when everything that was done in the directory before the call
// is durable. When the context ends first it is not known whether it is.
func (s *dirSyncs) sync(ctx context.Context, dir string) error {
	s.mu.Lock()
	d := s.dirs[dir]
	if d == nil {
		d = &dirSync{}
		s.dirs[dir] = d
	}
	if d.running >= syncsAtOnce {
		if d.next == nil {
			d.next = &shared{done: make(chan struct{})}
		}
		mine := d.next
		s.mu.Unlock()
		select {
		case <-mine.done:
			return mine.err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, context.Cause(ctx))
		}
	}
	d.running++
	s.mu.Unlock()
	err := s.fsync(dir)
	s.pass(dir, d)
	return err
}

// pass goes on with those who came meanwhile, in a goroutine, since the one
// that synced first has its answer.
func (s *dirSyncs) pass(dir string, d *dirSync) {
	if next := s.take(dir, d); next != nil {
		s.work.Go(func() {
			for ; next != nil; next = s.take(dir, d) {
				next.err = s.fsync(dir)
				close(next.done)
			}
		})
	}
}

// take answers who waits for the next sync; with nobody there, the caller's was the
// last of its kind.
func (s *dirSyncs) take(dir string, d *dirSync) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := d.next
	d.next = nil
	if next == nil {
		if d.running--; d.running == 0 {
			delete(s.dirs, dir)
		}
	}
	return next
}

// fsync syncs the directory. When an empty one was removed meanwhile, that is
// what has to be durable, and its parent is synced.
func (s *dirSyncs) fsync(dir string) error {
	for {
		h, err := s.top.open(s.root, orRoot(dir))
		if isAbsent(err) && dir != "" {
			dir = parentOf(dir)
			continue
		}
		if err != nil {
			return err
		}
		return errors.Join(h.sync(), h.close())
	}
}

// orRoot names the root itself when dir is empty.
func orRoot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

func parentOf(dir string) string {
	if p := path.Dir(dir); p != "." {
		return p
	}
	return ""
}
