// Package postgres is the database tier on PostgreSQL: one store for the processes
// of any number of machines.
//
//	t, err := postgres.Open(ctx, postgres.Config{URL: "postgres://app@db.example.org/app?sslmode=verify-full"})
//	if err != nil {
//		return err
//	}
//	defer t.Close(ctx)
//	_, err = t.Save(ctx, tiers.Record{Key: k, Value: []byte(`{"theme":"dark"}`), Codec: "json"}, tiers.Cond{})
//
// # Writing
//
// As in the tier on SQLite one goroutine of a process writes. It takes what all
// waiting callers want to have written, reads what their conditions are about,
// decides, and writes the whole in one transaction: one statement for all records,
// one sync of the server for all callers. Saves without a condition leave nothing to
// read: they are one exchange with the server, and when many wait a helper with a
// connection of its own works on some of them while the server syncs the others. A
// caller whose context ends while its work is in the queue leaves with nothing changed;
// later it gets tiers.ErrCommitUnknown.
//
// Whoever has to read before he writes does so alone, of all writers of all processes, by
// an advisory lock that PostgreSQL gives back with the end of the transaction. So what is
// checked in a transaction stays as it is until its commit, no transaction has to be
// repeated because of another, and sequence numbers become visible in their order. Saves
// without a condition share the lock: they go side by side, and wait for each other where
// they store the same key.
//
// When the answer to a COMMIT gets lost, the writer asks the server what became of
// the transaction, by its number and behind the same lock, before it tells its
// callers. A server that has crashed meanwhile may have given the number away again; then
// the ids of the transactions in it are asked for. Nothing is written twice. Only when
// the server can't be asked for a while, or has crashed and there are no ids, the answer
// is tiers.ErrCommitUnknown.
//
// # Time
//
// Records expire by the server's clock; those of the machines need not agree with it.
// A [Config] with a clock of the caller's own, as tests have, is the exception.
//
// # Poolers
//
// With Config.Pooler set nothing outlives a transaction: statements are not prepared,
// settings are those of the transaction, and locks are rows that their holder renews.
//
// # Reading it without sagestore
//
// Everything is in a schema of its own. View documents has the records that are plain
// JSON:
//
//	psql -c "SELECT value->>'theme' FROM sagestore.documents WHERE category = 'session.preferences'"
package postgres
