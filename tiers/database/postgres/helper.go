package postgres

import "sync/atomic"

// enough jobs are worth a group of their own, beside that of the writer.
const enough = 8

// helper goes the quick way beside the writer: while the server syncs the group of one,
// it works for the other's. What needs the turn for itself is left to the writer.
type helper struct {
	w       *writer
	stopped atomic.Bool
}

// help starts the helper of a writer.
func (w *writer) help() *helper {
	h := &helper{w: &writer{t: w.t, sync: w.sync, patience: patience, queue: w.queue, over: make(chan struct{}), helps: true}}
	go h.loop()
	return h
}

func (h *helper) loop() {
	w := h.w
	defer close(w.over)
	defer w.release()
	defer w.leave()
	for !h.stopped.Load() {
		if w.quickly(enough) {
			w.queue.gather(w.last)
			continue
		}
		if !w.pause(w.queue.more) {
			w.release()
			<-w.queue.more
		}
	}
}

// end waits until the helper has done what it has begun.
func (h *helper) end() {
	h.stopped.Store(true)
	signal(h.w.queue.more)
	<-h.w.over
}
