package near

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// hub is a messenger of one process. What is sent while it refuses is lost.
type hub struct {
	mu      sync.Mutex
	ears    map[chan []byte]bool
	refuses bool
	sent    [][]byte
}

func (h *hub) Send(_ context.Context, messages ...[]byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses {
		return tiers.ErrUnavailable
	}
	for _, m := range messages {
		h.sent = append(h.sent, m)
		for ear := range h.ears {
			ear <- m
		}
	}
	return nil
}

func (h *hub) Listen(ctx context.Context, up func(), deliver func([]byte)) error {
	ear := make(chan []byte, 1000)
	h.mu.Lock()
	if h.ears == nil {
		h.ears = map[chan []byte]bool{}
	}
	h.ears[ear] = true
	h.mu.Unlock()
	up()
	for {
		select {
		case m, ok := <-ear:
			if !ok {
				return errors.New("cut")
			}
			deliver(m)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *hub) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ear := range h.ears {
		close(ear)
		delete(h.ears, ear)
	}
}

func (h *hub) refuse(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = on
}

// ear is what a channel was told.
type ear struct {
	mu    sync.Mutex
	notes []Note
	lost  int
}

func (e *ear) heard(n Note) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notes = append(e.notes, n)
}

func (e *ear) missed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost++
}

func (e *ear) told() (notes []Note, lost int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Note{}, e.notes...), e.lost
}

func openChannel(t *testing.T, h *hub) (*Channel, *ear) {
	t.Helper()
	e := &ear{}
	ch := Open(t.Context(), ChannelConfig{Messenger: h, Log: slog.New(slog.DiscardHandler), Heard: e.heard, Lost: e.missed})
	t.Cleanup(func() { ch.Close(context.Background()) })
	soon(t, "it is up", func() bool { return ch.State().Up })
	return ch, e
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := tiers.SystemClock().Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if tiers.SystemClock().Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func someNote(i int) Note {
	return Note{Action: Saved, Category: "c", Key: Key{Namespace: "n", Name: fmt.Sprint(i)}, Version: tiers.Version(i)}
}

func TestWhatIsToldIsHeardByOthersInOrder(t *testing.T) {
	h := &hub{}
	a, mine := openChannel(t, h)
	_, other := openChannel(t, h)
	var want []Note
	for i := range 1000 {
		want = append(want, someNote(i))
		a.Tell(someNote(i))
	}
	soon(t, "all is heard", func() bool { got, _ := other.told(); return len(got) == len(want) })
	if got, lost := other.told(); !reflect.DeepEqual(got, want) || lost != 1 {
		t.Errorf("heard something else, or lost something %d times", lost)
	}
	if got, lost := mine.told(); len(got) != 0 || lost != 1 {
		t.Errorf("it hears itself: %v", got)
	}
	if s := a.State(); s.Sent == 0 || s.Sent > 1000 || s.Gaps != 0 {
		t.Errorf("state %+v", s)
	}
}

func TestWhatCouldNotBeToldIsKnownToBeMissing(t *testing.T) {
	h := &hub{}
	a, _ := openChannel(t, h)
	_, other := openChannel(t, h)
	a.Tell(someNote(1))
	soon(t, "it is heard", func() bool { got, _ := other.told(); return len(got) == 1 })
	h.refuse(true)
	a.Tell(someNote(2))
	soon(t, "it can't be told", func() bool { return a.State().Unsent })
	h.refuse(false)
	soon(t, "others know that they missed something", func() bool { _, lost := other.told(); return lost == 2 })
	a.Tell(someNote(3))
	soon(t, "what comes then is heard", func() bool { got, _ := other.told(); return len(got) == 2 && got[1] == someNote(3) })
	if _, lost := other.told(); lost != 2 {
		t.Errorf("lost something %d times", lost)
	}
}

func TestMoreThanCanWaitIsAGap(t *testing.T) {
	h := &hub{}
	h.refuse(true)
	a := Open(t.Context(), ChannelConfig{Messenger: h})
	_, other := openChannel(t, h)
	a.Tell(make([]Note, mostQueued)...)
	a.Tell(make([]Note, mostQueued)...)
	h.refuse(false)
	soon(t, "others know that they missed something", func() bool { _, lost := other.told(); return lost > 1 })
	a.Close(context.Background())
}

func TestEveryGapIsFound(t *testing.T) {
	for _, c := range []struct {
		why  string
		seqs []uint64
		lost int
	}{
		{"from the first on", []uint64{1, 2, 3}, 0},
		{"the first was missed", []uint64{2, 3}, 1},
		{"one was missed", []uint64{1, 3, 4}, 1},
		{"one came twice", []uint64{1, 2, 2, 3}, 0},
		{"one came late", []uint64{1, 3, 2, 4}, 1},
	} {
		e := &ear{}
		ch := &Channel{c: ChannelConfig{Heard: e.heard, Lost: e.missed}, origin: 1, seen: map[uint64]uint64{}}
		for _, seq := range c.seqs {
			m := message{origin: 2, seq: seq, notes: []Note{someNote(1)}}
			ch.deliver(m.bytes())
		}
		if notes, lost := e.told(); lost != c.lost || len(notes) != len(c.seqs) {
			t.Errorf("%s: lost %d times, want %d; heard %d", c.why, lost, c.lost, len(notes))
		}
	}
	e := &ear{}
	ch := &Channel{c: ChannelConfig{Heard: e.heard, Lost: e.missed}, origin: 1, seen: map[uint64]uint64{}}
	ch.deliver([]byte("n\x02 of a later version"))
	if _, lost := e.told(); lost != 1 {
		t.Error("a message that can't be read is no gap")
	}
	for origin := range uint64(mostOrigins + 10) {
		m := message{origin: origin + 2, seq: 1}
		ch.deliver(m.bytes())
	}
	if len(ch.seen) > mostOrigins {
		t.Errorf("%d origins are remembered", len(ch.seen))
	}
}

func TestChannelComesBackAfterACut(t *testing.T) {
	h := &hub{}
	a, _ := openChannel(t, h)
	b, other := openChannel(t, h)
	h.cut()
	soon(t, "it is back, and knows that it may have missed something", func() bool {
		_, lost := other.told()
		return b.State().Up && lost == 3
	})
	soon(t, "the other is back", func() bool { return a.State().Up })
	a.Tell(someNote(1))
	soon(t, "it hears", func() bool { got, _ := other.told(); return len(got) == 1 })
	if s := b.State(); s.Gaps != 1 || s.Error != "" {
		t.Errorf("state %+v", s)
	}
}

func TestWhatWasHeldIsDroppedBeforeTheCutIsSaid(t *testing.T) {
	h, up, said := &hub{}, make(chan *Channel, 1), make(chan bool, 3)
	ch := Open(t.Context(), ChannelConfig{
		Messenger: h, Log: slog.New(slog.DiscardHandler), Heard: func(Note) {},
		Lost: func() {
			ch := <-up
			said <- ch.State().Up
			up <- ch
		},
	})
	up <- ch
	t.Cleanup(func() { ch.Close(context.Background()) })
	soon(t, "it is up", func() bool { return ch.State().Up })
	<-said
	h.cut()
	if !<-said {
		t.Error("it is said to be down while what it held is still there")
	}
}

func TestCloseTellsWhatWaits(t *testing.T) {
	h := &hub{}
	_, other := openChannel(t, h)
	brief := Open(t.Context(), ChannelConfig{Messenger: h})
	brief.Tell(someNote(1))
	brief.Close(context.Background())
	h.mu.Lock()
	sent := len(h.sent)
	h.mu.Unlock()
	if sent != 1 {
		t.Errorf("%d messages were sent", sent)
	}
	soon(t, "it is heard", func() bool { got, _ := other.told(); return len(got) == 1 })
}

func TestMessageReadsBack(t *testing.T) {
	want := message{origin: 1<<63 + 5, seq: 300, notes: []Note{
		someNote(7),
		{Action: Changed, Category: "a.b", Key: Key{Name: "x/\x00\xff"}},
		{Action: Ended, Category: "c", Key: Key{Namespace: "n", Name: "s"}},
		{Action: Replaced, Category: "c"},
	}}
	got, err := parse(want.bytes())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	const golden = "n\x01\x00\x00\x00\x00\x00\x00\x00\x09\x03s\x01n\x01c\x01k\x05"
	one := message{origin: 9, seq: 3, notes: []Note{{Action: Saved, Category: "c", Key: Key{"n", "k"}, Version: 5}}}
	if got := string(one.bytes()); got != golden {
		t.Errorf("written %q, want %q", got, golden)
	}
}

func FuzzMessage(f *testing.F) {
	m := message{origin: 1, seq: 1, notes: []Note{someNote(1), {Action: Replaced, Category: "c"}}}
	f.Add(m.bytes())
	f.Add([]byte("n\x01\x00\x00\x00\x00\x00\x00\x00\x01\x01s\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			if !errors.Is(err, tiers.ErrCorrupt) {
				t.Errorf("the error is %v", err)
			}
			return
		}
		again, err := parse(m.bytes())
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v reads back as %+v, %v", m, again, err)
		}
	})
}
