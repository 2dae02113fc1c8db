-- +goose Up

-- No index beside the rows, and no other table that a commit with rows writes: who
-- has the file open keeps in memory where the row of a key is. tx is the id of the
-- transaction, in its last row, until it goes to commits with the row that has it.
-- sums are those of all tiers after the row, in the last row of each change.
CREATE TABLE journal_new (
    seq       INTEGER PRIMARY KEY,
    tier      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    category  TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    tx        TEXT,
    sums      TEXT,
    owner     TEXT    NOT NULL,
    over      INTEGER,
    deleted   INTEGER NOT NULL,
    queued    INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    codec     TEXT    NOT NULL,
    schema    INTEGER NOT NULL,
    flags     INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL,
    expires   INTEGER NOT NULL,
    value     BLOB    NOT NULL
) STRICT;

INSERT INTO journal_new (seq, tier, namespace, category, key, owner, over, deleted, queued, bytes, codec, schema, flags, version, created, updated, expires, value)
SELECT seq, tier, namespace, category, key, owner, over, deleted, queued, bytes, codec, schema, flags, version, created, updated, expires, value FROM journal;

DROP TABLE journal;

ALTER TABLE journal_new RENAME TO journal;

-- The sums are those of journal_tiers where no row is newer than the counter.
UPDATE counters SET value = max(value, coalesce((SELECT max(seq) FROM journal), 0)) WHERE name = 'journal';
