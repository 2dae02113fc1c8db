package tiers

import (
	"context"
	"time"
)

// QuietLimit is how long a [Messenger] may give no sign of life before it counts as
// lost.
const QuietLimit = 2 * time.Second

// Messenger carries messages between the processes of a store: to those that
// listen when one is sent, and to nobody later. Near layers tell each other by it
// what has changed. Every tier that reaches a server which all processes share may
// offer it.
type Messenger interface {
	// Send sends the messages in order. An error says that some may not have been
	// sent.
	Send(ctx context.Context, messages ...[]byte) error
	// Listen calls up once everything that is sent from then on is heard, and then
	// deliver for each message in the order in which it was sent, which owns it; the
	// sender hears its own. It returns the cause of the context, or the error after
	// which messages may have been missed: a lost connection, or a server that gives
	// no sign of life for [QuietLimit]. It is called again then, after a pause.
	Listen(ctx context.Context, up func(), deliver func(message []byte)) error
}

// Evictor decides what leaves a bounded set that may forget, such as a near layer.
// Things have a number that is theirs for good, so that it is remembered how often
// one was wanted that was in and out.
type Evictor interface {
	// Settle takes out what is gone and then lets in what has come, and answers
	// which of all it holds have to leave now, those that have just come among them. One that is in already gets the new
	// cost. It is called by one goroutine at a time.
	Settle(come []Held, gone []uint64) (leave []uint64)
	// Touch counts that one was wanted. It may be called at any time, by anyone,
	// before Close.
	Touch(id uint64)
	// Close ends its goroutines.
	Close()
}

// Held is a thing that an [Evictor] knows, and its cost in bytes.
type Held struct {
	ID   uint64
	Cost int64
}
