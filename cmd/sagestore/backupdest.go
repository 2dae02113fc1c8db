package main

import (
	"strings"
	"time"

	"github.com/sagestore/sagestore/config"
)

// toDestination sends the backups where the flag says, if that can hold any.
func (a *app) toDestination(cfg *config.Config) error {
	dest, err := destination(a.dest)
	if err != nil {
		return err
	}
	if scheme, _, is := strings.Cut(dest, "://"); is && strings.EqualFold(scheme, "mem") {
		return usagef("name a directory or a bucket, such as s3://BUCKET/PATH", "--destination: mem:// keeps nothing: what is written there is gone with the process")
	}
	e, err := cfg.Resolve(a.options()...)
	if err != nil {
		return err
	}
	if problem := e.BackupPlace(dest); problem != "" {
		return usagef("name another place", "--destination: %s", problem)
	}
	cfg.Backup.Dest = dest
	return nil
}

// timeForms are the forms of --at beside RFC 3339, and what a time of each stands for:
// a list shows no more of a time than its second, and a backup of that second is meant.
func timeForms() map[string]time.Duration {
	return map[string]time.Duration{"2006-01-02 15:04:05": time.Second, "2006-01-02 15:04": time.Minute, "2006-01-02": 0}
}

// parseTime reads a time of --at: of RFC 3339, or of the local clock. It answers the
// last instant of the second or the minute that is given.
func parseTime(text string) (time.Time, error) {
	last := func(t time.Time, span time.Duration) time.Time { return t.Add(max(0, span-1)) }
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		if t.Nanosecond() != 0 || strings.ContainsAny(text, ".,") {
			return t, nil
		}
		return last(t, time.Second), nil
	}
	for form, span := range timeForms() {
		t, err := time.ParseInLocation(form, text, time.Local)
		if err != nil {
			continue
		}
		if t.Nanosecond() != 0 || strings.ContainsAny(text, ".,") {
			return t, nil
		}
		return last(t, span), nil
	}
	return time.Time{}, usagef(`write 2026-11-28T03:30:00Z, or "2026-11-28 03:30" of the local clock`, "--at %q is no time", text)
}
