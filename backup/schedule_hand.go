package backup

import (
	"strings"
	"time"
)

// maxCause is how much of an error a state keeps, in bytes.
const maxCause = 500

// HandState is what became of the runs that the schedule did not begin. It is zero
// once any run has succeeded.
type HandState struct {
	Began    time.Time `json:"began,omitzero"`    // of one that is under way, or whose process died
	Failed   time.Time `json:"failed,omitzero"`   // when the last one failed
	Failures int       `json:"failures,omitzero"` // in a row
	Cause    string    `json:"cause,omitempty"`   // of the last failure
}

// BeginByHand notes that a run begins which the schedule did not begin. Stored
// before the work it tells of a process that dies in it.
func (s *State) BeginByHand(now time.Time) {
	if began := s.Hand.Began; !began.IsZero() { // and it never ended
		s.Hand.Failed, s.Hand.Cause = began, "its process ended before it did"
		s.Hand.Failures++
	}
	s.Hand.Began = now
	s.see(now)
}

// FailedByHand notes that the run that began by hand failed.
func (s *State) FailedByHand(now time.Time, err error) {
	s.Hand = HandState{Failed: now, Failures: s.Hand.Failures + 1, Cause: brief(err)}
	s.see(now)
}

// brief is the text of an error, as far as a state keeps it.
func brief(err error) string {
	text := err.Error()
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "..."
	}
	return text
}

// EndByHand notes that the run that began by hand was interrupted, which is no
// failure.
func (s *State) EndByHand(now time.Time) {
	s.Hand.Began = time.Time{}
	s.see(now)
}
