package main

import (
	"time"

	"github.com/sagestore/sagestore/manager"
)

// nextLine says when the next backup is made, and by what. What is overdue is said to be,
// and no time in the past is shown as one to come.
func nextLine(s manager.BackupStatus, now time.Time) string {
	due, late := "due at "+instant(s.Plan.At), s.Plan.Due(now)
	if late {
		due = "overdue since " + instant(s.Plan.Run)
	}
	by := ", by a program that has the store open, or sagestore backup serve"
	if !s.State.Watched.IsZero() {
		by += ", last seen at " + instant(s.State.Watched)
	}
	switch {
	case s.Watched && late:
		return "next: within a minute, " + due + by
	case s.Watched:
		return "next: " + instant(s.Plan.At) + by
	case s.Enabled && s.State.Watched.IsZero():
		return "next: " + due + "; no program that would make it was ever seen, so a timer has to"
	case s.Enabled:
		return "next: " + due + "; no program that would make it is there, the last was seen at " + instant(s.State.Watched) + ", so a timer has to"
	case late:
		return "next: none by itself, since backup.enabled is not set; sagestore backup serve would make one at once"
	}
	return "next: none by itself, since backup.enabled is not set; sagestore backup serve would make one at " + instant(s.Plan.At)
}
