// Package backup keeps backups of a store, and says when they are due and which of
// them stay.
//
//	repo, err := backup.Open(backup.Dir("/backups"), backup.Options{Copies: copies, Decode: decode})
//	if err != nil {
//		return err
//	}
//	done, err := repo.Create(ctx, backup.Source{Parts: []backup.Part{{Name: "database", Path: "sage.db", Frozen: frozen}}})
//	...
//	err = repo.Restore(ctx, backup.Latest, backup.RestoreOptions{To: "/restored"})
//
// # What a backup is
//
// A backup is a handful of objects in a [Bucket], a directory or any object store:
// one for each part, compressed and, where there are recipients, encrypted by age,
// and manifest.json, which is written last. Without a manifest there is no backup, so
// what ended early never counts. docs/FORMAT.md describes the bytes; zstd, age and
// tar unpack them without this package.
//
// # When it counts
//
// [Repo.Create] opens again what it has written: it compares every hash, decrypts,
// unpacks within limits, checks the database, counts its records and decodes some of
// each category. Only then the backup is verified, and only verified ones count for
// [Latest] and for retention. [Repo.Verify] does the same at any later time, and takes
// the mark away from a backup that has been damaged.
//
// # Restoring
//
// [Repo.Restore] unpacks beside the store, verifies there, and swaps: a marker file
// lists the renames, and once it is there the restore is decided. [Resume], which
// whoever opens a store calls first, finishes one that was interrupted. So a store is
// the old one or the new one whenever the machine fails. What was replaced is kept,
// see [Replaced].
//
// Package backup knows the contract of package tiers and no store: what reads the
// copies is a tiers.Copies of the store's driver.
package backup
