package tiers

import (
	"context"
	"time"
)

// Outage is offered by a tier whose server may be away for a while, and which
// then answers ErrUnavailable at once and finds by itself when it is back. What
// stands in for it meanwhile, such as a journal, is told here. The methods but
// Ready are cheap and ask nobody.
type Outage interface {
	// Away answers nil while the server answers; else an error that wraps
	// ErrUnavailable and says why it does not, with a hint.
	Away() error
	// Ready returns nil as soon as the server answers, at once when it does
	// already, and else the cause of the context or ErrClosed.
	Ready(ctx context.Context) error
	// ServerNow estimates the server's clock, from below; false before the
	// first contact.
	ServerNow() (now time.Time, ok bool)
	// Seen is the highest version that this handle has met on the server, 0
	// before the first contact.
	Seen() Version
}
