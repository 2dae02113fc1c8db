// Package aside computes on threads that step back.
//
// What computes for long, such as a backup, shares the processors with callers who wait
// for an answer. With a thread on which the system lets all others go first, they hardly
// notice; a goroutine alone is in nobody's way only as long as a processor is free.
package aside

import (
	"io"
	"runtime"
)

// Go runs fn on a thread of its own that steps back, and that ends with it. What fn
// starts with a go statement does not step back by itself. On systems other than Linux,
// and without /proc, it is a goroutine like any other.
func Go(fn func()) { go run(fn, func() {}) }

// run calls found when it has a thread, and fn on it.
func run(fn, found func()) {
	runtime.LockOSThread()
	back, err := stepBack()
	switch {
	case err != nil:
		runtime.UnlockOSThread()
		found()
		fn()
	case back:
		found()
		fn() // and never unlocked, so that the thread ends with it
	default:
		other := make(chan struct{})
		go run(fn, func() { close(other) })
		<-other // which can't be this one as long as it is locked
		runtime.UnlockOSThread()
		found()
	}
}

// Do does so and waits for fn. A panic of fn is one of the caller.
func Do(fn func() error) (err error) {
	var panicked any
	returned := false
	over := make(chan struct{})
	Go(func() {
		defer close(over)
		defer func() {
			if !returned {
				panicked = recover()
			}
		}()
		err = fn()
		returned = true
	})
	<-over
	switch {
	case panicked != nil:
		panic(panicked)
	case !returned:
		runtime.Goexit()
	}
	return err
}

// chunk is how much a [Writer] hands on at once.
const chunk = 128 << 10

// Writer writes to another writer aside, while whoever writes to it goes on. It is for
// one goroutine. Whoever makes one closes it.
type Writer struct {
	to   io.Writer
	buf  []byte
	full chan []byte // nil: there was no byte yet
	free chan written
	err  error // of the other writer, to be read when over is closed
	told bool  // to the caller of Write
	over chan struct{}
}

// written is a buffer that is free again, and the error there was so far.
type written struct {
	buf []byte
	err error
}

// NewWriter makes a writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write takes the bytes, which are the caller's again. The error may be that of an
// earlier one.
func (w *Writer) Write(p []byte) (n int, err error) {
	if w.full == nil && len(p) > 0 {
		w.begin()
	}
	for len(p) > 0 {
		if len(w.buf) == cap(w.buf) {
			w.full <- w.buf
			back := <-w.free
			w.buf = back.buf[:0]
			if back.err != nil {
				w.told = true
				return n, back.err
			}
		}
		m := copy(w.buf[len(w.buf):cap(w.buf)], p)
		w.buf, p, n = w.buf[:len(w.buf)+m], p[m:], n+m
	}
	return n, nil
}

func (w *Writer) begin() {
	w.buf = make([]byte, 0, chunk)
	w.full, w.free, w.over = make(chan []byte, 1), make(chan written, 2), make(chan struct{})
	w.free <- written{buf: make([]byte, 0, chunk)}
	Go(func() {
		defer close(w.over)
		for b := range w.full {
			if w.err == nil {
				_, w.err = w.to.Write(b)
			}
			w.free <- written{b, w.err}
			runtime.Gosched() // whoever waits for a turn has it now
		}
	})
}

// Close waits until all is written, and answers the error that Write has not answered.
// Nothing may be written afterwards; again it answers nil.
func (w *Writer) Close() error {
	if w.full == nil {
		return nil
	}
	if len(w.buf) > 0 {
		w.full <- w.buf
	}
	close(w.full)
	<-w.over
	w.full, w.buf = nil, nil
	if w.told {
		return nil
	}
	return w.err
}
