package postgres

import (
	"runtime"
	"slices"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// queue is the work of all callers that waits for the writer, and for its helper.
type queue struct {
	wake chan struct{} // the writer
	more chan struct{} // its helper

	mu     sync.Mutex
	jobs   []*job
	left   int // callers that have gone since their jobs were dropped the last time
	closed bool
	busy   bool // the writer is on its way the quick way: its helper may go beside it
	alone  bool // the writer needs the turn for itself
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), more: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (q *queue) add(j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return tiers.ErrClosed
	}
	q.jobs = append(q.jobs, j)
	signal(q.wake)
	if q.busy && len(q.jobs) >= enough {
		signal(q.more)
	}
	return nil
}

// close refuses new jobs; those in the queue are still done.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	signal(q.wake)
}

func (q *queue) state() (work, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs) > 0, q.closed
}

func (q *queue) empty() bool {
	work, _ := q.state()
	return !work
}

// only keeps the helper away while the writer needs the turn for itself.
func (q *queue) only(alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alone = alone
}

// gather lets callers that have just been woken put their next work into the queue, as
// long as it grows, up to so many.
func (q *queue) gather(most int) {
	q.mu.Lock()
	n := len(q.jobs)
	q.mu.Unlock()
	for range 2 {
		runtime.Gosched()
		q.mu.Lock()
		now := len(q.jobs)
		q.mu.Unlock()
		if now == n || now >= most {
			return
		}
		n = now
	}
}

// leave notes that the caller of a job has gone. Such jobs are dropped once they may be half
// of all, so that the queue does not grow while the writer waits for the server.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left++; 2*q.left >= len(q.jobs) {
		q.drop()
	}
}

// drop removes the jobs whose callers have gone.
func (q *queue) drop() {
	q.jobs = slices.DeleteFunc(q.jobs, func(j *job) bool { return j.state.Load() == gone })
	q.left = 0
}

// peek answers the jobs that wait, as many as fit into one group.
func (q *queue) peek() (jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop()
	bytes := 0
	for _, j := range q.jobs {
		if len(jobs) >= groupJobs || len(jobs) > 0 && bytes+j.bytes > groupBytes {
			break
		}
		jobs = append(jobs, j)
		bytes += j.bytes
	}
	return jobs
}

// take takes those of the jobs whose callers have not gone, and those that have come
// since and want to know nothing.
func (q *queue) take(peeked []*job) (jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	had := make(map[*job]bool, len(peeked))
	for _, j := range peeked {
		had[j] = true
	}
	bytes, n := 0, 0
	for _, j := range q.jobs {
		if !had[j] && (j.wants != nil || j.alone != nil || len(jobs) >= groupJobs || bytes+j.bytes > groupBytes) {
			break
		}
		n++
		if j.state.CompareAndSwap(queued, taken) {
			jobs = append(jobs, j)
			bytes += j.bytes
		}
	}
	q.shift(n)
	return jobs
}

// ready tells whether all that waits can go the quick way, and is at least so much.
func (q *queue) ready(least int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, j := range q.jobs {
		if j.state.Load() == gone {
			continue
		}
		if j.plain == nil {
			return false
		}
		n++
	}
	return n >= max(least, 1) && (least == 0 || !q.alone)
}

// takeQuick takes jobs that can go the quick way. Of many it leaves as many as it takes:
// so some callers get ready while the server works for others.
func (q *queue) takeQuick(w *writer) *quick {
	q.mu.Lock()
	defer q.mu.Unlock()
	group := &quick{}
	if w.helps && (q.alone || len(q.jobs) < enough) {
		return group
	}
	bytes, n := 0, 0
	limit := min(groupJobs, max(enough, (len(q.jobs)+w.last+1)/2))
	for _, j := range q.jobs {
		if j.plain == nil || len(group.jobs) >= limit || len(group.jobs) > 0 && bytes+j.bytes > groupBytes {
			break
		}
		n++
		if j.state.CompareAndSwap(queued, taken) {
			group.jobs = append(group.jobs, j)
			group.all = append(group.all, j.plain...)
			bytes += j.bytes
		}
	}
	q.shift(n)
	if !w.helps {
		q.busy = len(group.jobs) > 0
	}
	if q.busy && len(q.jobs) >= enough {
		signal(q.more)
	}
	return group
}

// done notes that a group that was taken is over.
func (q *queue) done(w *writer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.helps {
		q.busy = false
	}
}

// shift takes so many off the queue.
func (q *queue) shift(n int) {
	rest := copy(q.jobs, q.jobs[n:])
	clear(q.jobs[rest:])
	q.jobs = q.jobs[:rest]
}

// putBack lets jobs wait again, of which nothing was done: their callers may leave.
func (q *queue) putBack(jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range jobs {
		j.state.Store(queued)
	}
	q.jobs = append(append(make([]*job, 0, len(jobs)+len(q.jobs)), jobs...), q.jobs...)
	signal(q.wake)
}
