package database

import (
	"context"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// pageSize is SQLite's default.
	pageSize = 4096
	// checkpointPages is after how many written pages a checkpoint is due.
	checkpointPages = 1000
	// tidyPages is from how many pages in the log on the writer pauses for the
	// rest of a checkpoint, which lets the log begin anew.
	tidyPages = 4000
	// logLimit is the size in bytes to which a log is cut when it begins anew.
	logLimit = 32 << 20
	// idleTime is after how long without a commit the log is copied anyway:
	// loads are faster from the file than from the log.
	idleTime = 250 * time.Millisecond
	// tidyPatience bounds how long the writer waits for readers to leave the log.
	tidyPatience = 20 * time.Millisecond
)

// checkpoint copies the log into the database file: as much as is possible now
// (PASSIVE), or all of it, so that the log begins anew (RESTART). It answers the
// pages in the log.
func (c *conn) checkpoint(ctx context.Context, mode string) (pages int64, err error) {
	row, err := c.first(ctx, "PRAGMA wal_checkpoint("+mode+")")
	if err != nil || len(row) < 2 {
		return 0, err
	}
	pages, _ = row[1].(int64)
	return pages, nil
}

// checkpointer copies the log in the background, so that no caller waits for it.
type checkpointer struct {
	t    *Tier
	wake chan struct{}
	over chan struct{}
	idle *time.Timer
}

func newCheckpointer(t *Tier) *checkpointer {
	k := &checkpointer{t: t, wake: make(chan struct{}, 1), over: make(chan struct{})}
	k.idle = time.AfterFunc(idleTime, k.want)
	return k
}

// want asks for a checkpoint; one that is already asked for is enough.
func (k *checkpointer) want() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// loop ends when the context does.
func (k *checkpointer) loop(ctx context.Context, c *conn) {
	defer close(k.over)
	defer k.idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		}
		pages, err := c.checkpoint(context.WithoutCancel(ctx), "PASSIVE")
		switch {
		case err != nil:
			k.t.checkpointFailed(err)
		case pages > tidyPages:
			// Under steady writes a background checkpoint never catches up.
			k.t.writer.wantTidy()
		}
	}
}

// makeTidy ends a checkpoint while nobody writes; little is left to be copied.
func (w *writer) makeTidy(ctx context.Context) {
	if err := w.turn.take(ctx, nil); err != nil {
		return
	}
	defer func() { _ = w.turn.give() }()
	c, release, err := w.t.borrowWriter(ctx)
	if err != nil {
		return
	}
	defer release()
	// What takes long is done before readers are waited for.
	if _, err := c.checkpoint(ctx, "PASSIVE"); err != nil {
		w.t.checkpointFailed(err)
		return
	}
	wait, cancel := context.WithTimeout(ctx, tidyPatience)
	defer cancel()
	_ = poll(wait, nil, func() (bool, error) {
		row, err := c.first(ctx, "PRAGMA wal_checkpoint(RESTART)")
		if err != nil || len(row) < 3 {
			if busy(err) {
				return false, nil
			}
			return true, err
		}
		blocked, _ := row[0].(int64)
		return blocked == 0, nil
	})
}

// checkpointFailed judges an error of a checkpoint. A full disk heals by itself,
// and nothing is lost: the log has it all.
func (t *Tier) checkpointFailed(err error) {
	switch {
	case busy(err):
	case codeOf(err) == sqlite3.SQLITE_FULL:
		t.log.Warn("no room for a checkpoint; the log keeps growing", "place", t.place, "cause", err)
	default:
		// No caller gets this error, so it is logged.
		t.log.Error("a checkpoint failed; the store must be opened again", "place", t.place, "cause", err)
		t.writer.spoil(err)
	}
}
