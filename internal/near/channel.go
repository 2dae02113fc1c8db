package near

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// ChannelConfig is what [Open] takes.
type ChannelConfig struct {
	Messenger tiers.Messenger
	Log       *slog.Logger

	// Heard is told what another process has changed, and Lost that something may
	// have been missed: nothing that is held can be relied on any more. Both are
	// called by one goroutine at a time. nil, both of them: the channel only tells.
	Heard func(Note)
	Lost  func()
}

// Channel tells other processes what this one changes, and hears what they do. It is
// safe for concurrent use.
type Channel struct {
	c      ChannelConfig
	origin uint64
	stop   context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{} // holds one

	mu     sync.Mutex
	state  State
	queue  []Note
	full   bool // notes were dropped
	closed bool
	idle   chan struct{} // closed by the sender when it has nothing to send; nil: nobody asks

	seq  uint64            // of the last message; the sender's
	seen map[uint64]uint64 // the last number by origin; the listener's
}

// State is how a channel does.
type State struct {
	Up       bool      `json:"up"`    // what others change is heard
	Since    time.Time `json:"since"` // of Up
	Error    string    `json:"error,omitempty"`
	Sent     int64     `json:"sent"`             // messages; one may tell of many changes
	Heard    int64     `json:"heard"`            // of other processes
	Gaps     int64     `json:"gaps"`             // how often some may have been missed
	Unsent   bool      `json:"unsent,omitempty"` // what this process changes can't be told now
	SendFail string    `json:"send_error,omitempty"`
}

const (
	mostQueued  = 16 << 10 // notes
	mostNotes   = 256      // in one message
	sendPatient = time.Second
	firstPause  = 50 * time.Millisecond
	lastPause   = time.Second
	mostOrigins = 4096
)

// Open makes a channel, which ends with the context as well. The caller closes it.
func Open(ctx context.Context, c ChannelConfig) *Channel {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	ch := &Channel{c: c, origin: binary.BigEndian.Uint64(id[:]), wake: make(chan struct{}, 1)}
	ch.state.Since = tiers.SystemClock().Now()
	ctx, stop := context.WithCancel(ctx)
	ch.stop = stop
	ch.work.Go(func() { ch.send(ctx) })
	if c.Heard != nil {
		ch.work.Go(func() { ch.listen(ctx) })
	}
	return ch
}

// Close sends what was told, for up to a second, and ends the goroutines. Nobody may
// use the channel any more.
func (ch *Channel) Close(ctx context.Context) {
	idle := make(chan struct{})
	ch.mu.Lock()
	ch.idle, ch.closed = idle, true
	ch.mu.Unlock()
	ch.rouse()
	ctx, cancel := context.WithTimeout(ctx, sendPatient)
	defer cancel()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	ch.stop()
	ch.work.Wait()
}

// State answers how the channel does.
func (ch *Channel) State() State {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.state
}

// Tell tells the others of changes, soon. It never waits.
func (ch *Channel) Tell(notes ...Note) {
	if len(notes) == 0 {
		return
	}
	ch.mu.Lock()
	if len(ch.queue)+len(notes) > mostQueued {
		ch.queue, ch.full = nil, true
	} else if !ch.full {
		ch.queue = append(ch.queue, notes...)
	}
	ch.mu.Unlock()
	ch.rouse()
}

func (ch *Channel) rouse() {
	select {
	case ch.wake <- struct{}{}:
	default:
	}
}

// send sends what is told, in order. What can't be sent is a gap in the numbers, at
// which whoever hears the next message drops everything.
func (ch *Channel) send(ctx context.Context) {
	for {
		ch.mu.Lock()
		notes, lost := ch.queue, ch.full
		ch.queue, ch.full = nil, false
		if len(notes) == 0 && !lost && ch.idle != nil {
			close(ch.idle)
			ch.idle = nil
		}
		ch.mu.Unlock()
		if len(notes) == 0 && !lost {
			select {
			case <-ch.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		if !lost {
			lost = ch.sendAll(ctx, notes) != nil
		}
		if lost && !ch.sendGap(ctx) {
			return
		}
	}
}

func (ch *Channel) sendAll(ctx context.Context, notes []Note) error {
	var all [][]byte
	for len(notes) > 0 {
		n := min(len(notes), mostNotes)
		ch.seq++
		m := message{origin: ch.origin, seq: ch.seq, notes: notes[:n]}
		all, notes = append(all, m.bytes()), notes[n:]
	}
	return ch.sendNow(ctx, all...)
}

func (ch *Channel) sendNow(ctx context.Context, all ...[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendPatient)
	defer cancel()
	err := ch.c.Messenger.Send(ctx, all...)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.state.Unsent, ch.state.SendFail = err != nil, ""
	if err != nil {
		ch.state.SendFail = err.Error()
	} else {
		ch.state.Sent += int64(len(all))
	}
	return err
}

// sendGap tells that something could not be told, until that is told. It answers
// false when the context is over.
func (ch *Channel) sendGap(ctx context.Context) bool {
	ch.seq++ // of a message that nobody gets
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		ch.mu.Lock()
		ch.queue, ch.full = nil, false // the gap tells of all of it
		ch.mu.Unlock()
		ch.seq++
		m := message{origin: ch.origin, seq: ch.seq}
		if ch.sendNow(ctx, m.bytes()) == nil {
			return true
		}
		if tiers.SystemClock().Sleep(ctx, pause) != nil {
			return false
		}
	}
}

// listen hears what others tell until the context ends.
func (ch *Channel) listen(ctx context.Context) {
	pause := firstPause
	for {
		err := ch.c.Messenger.Listen(ctx, func() {
			ch.seen = make(map[uint64]uint64)
			ch.c.Lost() // what came before nobody knows
			ch.heard(true, nil)
			pause = firstPause
		}, ch.deliver)
		if ctx.Err() != nil {
			return
		}
		ch.c.Lost() // before it is said, so that whoever knows finds nothing from before
		ch.heard(false, err)
		if tiers.SystemClock().Sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// heard notes whether the channel is up.
func (ch *Channel) heard(up bool, err error) {
	ch.mu.Lock()
	was := ch.state.Up
	if was != up {
		ch.state.Up, ch.state.Since = up, tiers.SystemClock().Now()
	}
	if was && !up {
		ch.state.Gaps++
	}
	ch.state.Error = ""
	if err != nil {
		ch.state.Error = err.Error()
	}
	ch.mu.Unlock()
	switch {
	case was && !up:
		ch.c.Log.Warn("near layers do not hear of changes in other processes; their entries live for near_ttl", "cause", err)
	case up && !was:
		ch.c.Log.Debug("near layers hear of changes in other processes")
	}
}

func (ch *Channel) deliver(b []byte) {
	m, err := parse(b)
	if err == nil && m.origin == ch.origin {
		return
	}
	ch.mu.Lock()
	ch.state.Heard++
	ch.mu.Unlock()
	if err != nil || !ch.follows(&m) {
		ch.mu.Lock()
		ch.state.Gaps++
		ch.mu.Unlock()
		ch.c.Lost()
	}
	for _, n := range m.notes {
		ch.c.Heard(n)
	}
}

// follows tells whether nothing of its origin was missed before the message. One
// that was sent twice is no harm.
func (ch *Channel) follows(m *message) bool {
	last := ch.seen[m.origin]
	if len(ch.seen) >= mostOrigins {
		clear(ch.seen)
	}
	ch.seen[m.origin] = max(last, m.seq)
	return m.seq <= last+1
}
