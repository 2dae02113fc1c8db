-- +goose Up

CREATE TABLE facts (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

-- What has to reach a tier, at most one row for a key. A change of a row gives
-- it a new seq. over is the version that the row may replace, NULL for any lower
-- one; queued is since when the key has been pending.
CREATE TABLE journal (
    seq       INTEGER PRIMARY KEY,
    tier      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    category  TEXT    NOT NULL,
    key       TEXT    NOT NULL,
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
    value     BLOB    NOT NULL,
    UNIQUE (tier, namespace, category, key)
) STRICT;

CREATE INDEX journal_tier ON journal (tier);

-- Sums over the journal, and the highest version that it has issued for a tier.
CREATE TABLE journal_tiers (
    tier    TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    bytes   INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    namespace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    started    INTEGER NOT NULL,
    seen       INTEGER NOT NULL,
    ended      INTEGER NOT NULL,
    seq        INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (namespace, id)
) STRICT;
