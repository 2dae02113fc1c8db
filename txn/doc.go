// Package txn holds what keeps work whole where one store alone can't.
//
// [Journal] puts a journal in front of a tier whose server may be away, such as
// the cache:
//
//	cache, err := txn.Journal(ctx, redis, system, txn.Config{Epoch: epoch})
//
// The result is a [tiers.Tier] like the one inside. While the server is away,
// saves and deletes become rows of the journal, which is kept by the store's
// [tiers.System]; they are answered from there and reach the server when it is
// back, in order, by [tiers.Applier].
//
// # What is promised
//
//   - A row is the answer for its key: a save its value, a delete or an expired
//     row [tiers.ErrNotFound]. Only a key without a row is
//     [tiers.ErrUnavailable] while the server is away; a list is then one such
//     error and never a part of the list.
//   - Saves and deletes with a condition are [tiers.ErrUnavailable] while the
//     server is away, since nobody can tell whether the condition holds. So is
//     touching a key without a row.
//   - Until any process has reached the server under the store's epoch, nothing
//     can be there. So the journal is the whole truth then: loads, lists,
//     conditions and all else are answered from it.
//   - A save without a condition whose outcome is not known becomes a row too,
//     unless its caller has gone, so that it is known in the end.
//   - Rows that this process makes are seen by it at once, those of other
//     processes within a tenth of a second. Without rows, calls cost nothing
//     extra.
//   - One process at a time applies rows, told by a lock that ends with it.
//
// [Engine] runs transactions over several tiers: what one changes is committed in the
// database, together with rows of the journal for the other tiers, which are answered
// from until they are applied. [Wrap] gives a single store transactions. docs/ARCHITECTURE.md
// says how, and what is promised.
package txn
