package backup

import (
	"errors"
	"time"
)

// ErrUnasked is what a hook answers that had nobody to tell. It is no failure.
var ErrUnasked = errors.New("nobody is to be told")

// Untold is what became of the notices for one recipient. It is zero once one has
// reached it.
type Untold struct {
	Failed   time.Time `json:"failed,omitzero"`   // when the last one failed
	Failures int       `json:"failures,omitzero"` // in a row
	Cause    string    `json:"cause,omitempty"`   // of the last failure; it holds no secret
}

// UntoldState is what a state remembers of those who are to be told.
type UntoldState struct {
	Webhook   Untold `json:"webhook,omitzero"`
	OnSuccess Untold `json:"on_success,omitzero"`
	OnFailure Untold `json:"on_failure,omitzero"`
}

// Told notes what became of a notice; nil is a success.
func (u *Untold) Told(now time.Time, err error) {
	if err == nil {
		*u = Untold{}
		return
	}
	*u = Untold{Failed: now, Failures: u.Failures + 1, Cause: brief(err)}
}
