package backup

import (
	"errors"
	"io"
	"os"
)

const (
	// steadyStep is after how many bytes a file is synced while it is being written.
	// One large sync at the end would take longer, and everybody else who syncs
	// something, such as the store that is backed up, would wait for all of it.
	steadyStep = 256 << 10
	// steadyAhead is how many steps the writing may be ahead of the disk.
	steadyAhead = 16
	steadyRead  = 128 << 10
)

// writeSteadily writes what is read to the file and syncs it. Reading and writing go on
// while the disk works.
func writeSteadily(f *os.File, r io.Reader) error {
	w := &steady{f: f, done: make(chan error, 1)}
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, steadyRead))
	err = errors.Join(err, w.settle())
	if err == nil {
		err = f.Sync()
	}
	return err
}

// steady syncs a file in the background.
type steady struct {
	f    *os.File
	n    int64 // bytes since a sync was begun
	busy bool  // one is under way, and done will tell its end
	done chan error
}

func (s *steady) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	s.n += int64(n)
	if err == nil && s.n >= steadyStep {
		err = s.step()
	}
	return n, err
}

func (s *steady) step() error {
	if s.busy && s.n < steadyAhead*steadyStep {
		select {
		case err := <-s.done:
			s.busy = false
			if err != nil {
				return err
			}
		default:
			return nil
		}
	}
	if err := s.settle(); err != nil {
		return err
	}
	s.n, s.busy = 0, true
	go func() { s.done <- s.f.Sync() }()
	return nil
}

// settle waits for the sync that is under way. What it says is said only once.
func (s *steady) settle() error {
	if !s.busy {
		return nil
	}
	s.busy = false
	return <-s.done
}
