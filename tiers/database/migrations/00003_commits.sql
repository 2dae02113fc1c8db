-- +goose Up

-- The transactions that were committed, for at least a day; at is in seconds
-- since 1970. One tree, so that a commit changes one page.
CREATE TABLE commits (
    id TEXT    NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What has left the journal because it was applied. Rows are found by what is
-- newer than a seq, so there is no other index. The counter recent is a seq up to
-- which entries were removed, or never noted.
CREATE TABLE recent (
    seq       INTEGER PRIMARY KEY,
    tier      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    category  TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    deleted   INTEGER NOT NULL,
    expires   INTEGER NOT NULL
) STRICT;

-- See Due: every commit with a row paid for it.
DROP INDEX journal_tier;

INSERT INTO counters (name, value) SELECT 'recent', value FROM counters WHERE name = 'journal';
