package tiers

import "context"

// Excluder keeps a store to one handle: for work that nobody may see half of.
type Excluder interface {
	// Exclude keeps everybody else from opening the store until release is called or
	// the handle is closed. It is ErrUnavailable, naming who it is, while another
	// handle has the store open; the caller then closes its own, which nobody may
	// see any more.
	Exclude(ctx context.Context) (release func() error, err error)
}
