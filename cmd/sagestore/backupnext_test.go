package main

import (
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/manager"
)

func TestNoTimeInThePastIsShownAsOneToCome(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	seen := now.Add(-time.Hour)
	ahead := backup.Plan{Run: now.Add(time.Hour), At: now.Add(time.Hour)}
	missed := backup.Plan{Run: now.Add(-9 * time.Hour), At: now}
	for _, c := range []struct {
		why  string
		s    manager.BackupStatus
		want string
	}{
		{
			"a program is there",
			manager.BackupStatus{Enabled: true, Watched: true, Plan: ahead, State: backup.State{Watched: seen}},
			"next: 2026-03-02T13:00:00Z, by a program that has the store open, or sagestore backup serve, last seen at 2026-03-02T11:00:00Z",
		},
		{
			"one is there and late",
			manager.BackupStatus{Watched: true, Plan: missed, State: backup.State{Watched: seen}},
			"next: within a minute, overdue since 2026-03-02T03:00:00Z, by a program that has the store open, or sagestore backup serve, last seen at 2026-03-02T11:00:00Z",
		},
		{
			"one is there that has noted nothing yet",
			manager.BackupStatus{Watched: true, Plan: ahead},
			"next: 2026-03-02T13:00:00Z, by a program that has the store open, or sagestore backup serve",
		},
		{
			"none was ever seen",
			manager.BackupStatus{Enabled: true, Plan: ahead},
			"next: due at 2026-03-02T13:00:00Z; no program that would make it was ever seen, so a timer has to",
		},
		{
			"the last has ended, and a run was missed",
			manager.BackupStatus{Enabled: true, Plan: missed, State: backup.State{Watched: seen}},
			"next: overdue since 2026-03-02T03:00:00Z; no program that would make it is there, the last was seen at 2026-03-02T11:00:00Z, so a timer has to",
		},
		{
			"nothing is enabled",
			manager.BackupStatus{Plan: ahead},
			"next: none by itself, since backup.enabled is not set; sagestore backup serve would make one at 2026-03-02T13:00:00Z",
		},
		{
			"nothing is enabled, and a run was missed",
			manager.BackupStatus{Plan: missed},
			"next: none by itself, since backup.enabled is not set; sagestore backup serve would make one at once",
		},
	} {
		if got := nextLine(c.s, now); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.why, got, c.want)
		}
	}
}
