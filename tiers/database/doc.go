// Package database is the database tier on SQLite: a file that other programs can
// read too, with everything that was acknowledged still in it after a crash.
//
//	t, err := database.Open(ctx, database.Config{Path: "~/.sage/sage.db"})
//	if err != nil {
//		return err
//	}
//	defer t.Close(ctx)
//	_, err = t.Save(ctx, tiers.Record{Key: k, Value: []byte(`{"theme":"dark"}`), Codec: "json"}, tiers.Cond{})
//
// # Writing
//
// One goroutine writes. It takes what all waiting callers want to have written
// and commits it in one transaction, so that many callers share one sync of the
// disk. Conditions are checked inside that transaction, in the order in which the
// callers came, and all answers go out after its COMMIT. A caller whose context
// ends while its work is in the queue leaves with nothing changed; later it gets
// tiers.ErrCommitUnknown.
//
// A full disk is tiers.ErrFull for what did not fit, and work goes on once there
// is room. After an I/O error nobody knows what the disk holds: what was being
// committed is answered with tiers.ErrCommitUnknown, and the store takes no more
// writes until it is closed and opened again.
//
// # Transactions
//
// The tier decides transactions (tiers.Committer), which join the same groups, and
// tells their outcome for a day. Four snapshots may be open at once, on connections
// of their own.
//
// # Several processes
//
// Any number of processes of one host may have the file open. Their writers take
// turns, and no caller ever sees a lock of SQLite's. Beside sage.db stand its log
// (-wal, -shm) and small files that are only locked: .lock is held by everyone,
// and exclusively for a migration or a restore; .migration orders those who would
// migrate, .writer and .turn those who write. File systems of a network are
// refused.
//
// # Reading it without sagestore
//
// Table records has one row for each record; plain JSON is stored as text:
//
//	sqlite3 sage.db "SELECT json_extract(value, '$.theme') FROM records WHERE category = 'session.preferences'"
//
// Never copy, open or chmod the files while a process has them open; a copy is
// made with VACUUM INTO or with sagestore's own backup.
package database
