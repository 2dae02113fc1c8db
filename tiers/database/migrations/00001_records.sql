-- +goose Up

-- Times are microseconds since 1970; expires 0 is never. A value that is plain
-- JSON is TEXT, so that json_extract works; every other value is a BLOB. The
-- value is the last column: what stands before it is read without it.
CREATE TABLE records (
    namespace TEXT    NOT NULL,
    category  TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    codec     TEXT    NOT NULL,
    schema    INTEGER NOT NULL,
    flags     INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL,
    expires   INTEGER NOT NULL,
    value     ANY     NOT NULL,
    UNIQUE (namespace, category, key)
) STRICT;

CREATE INDEX records_expires ON records (expires) WHERE expires <> 0;

-- version: none above it was issued, it is reserved ahead. journal, sessions:
-- raised by every change of that table.
CREATE TABLE counters (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

INSERT INTO counters (name, value) VALUES ('version', 0), ('journal', 0), ('sessions', 0);
