-- Times are microseconds since 1970; expires 0 is never. Keys compare by bytes. Of
-- flags, 256 says that the value is a text of JSON. words and grams are what a
-- record is to be found by: NULL where there is nothing. A gram is three characters
-- of 21 bits each.
CREATE TABLE ~.records (
    namespace text   COLLATE "C" NOT NULL,
    category  text   COLLATE "C" NOT NULL,
    key       text   COLLATE "C" NOT NULL,
    codec     text   COLLATE "C" NOT NULL,
    schema    bigint NOT NULL,
    flags     int    NOT NULL,
    version   bigint NOT NULL,
    created   bigint NOT NULL,
    updated   bigint NOT NULL,
    expires   bigint NOT NULL,
    value     bytea  NOT NULL,
    words     text[] COLLATE "C",
    grams     bigint[],
    PRIMARY KEY (namespace, category, key)
) WITH (fillfactor = 80); -- room for the next save beside the one that it replaces

-- The order among them is read of every row that a search comes upon.
ALTER TABLE ~.records ALTER COLUMN words SET STORAGE MAIN;

CREATE INDEX records_expires ON ~.records (expires) WHERE expires <> 0;

CREATE INDEX records_search ON ~.records USING gin (words, grams) WHERE words IS NOT NULL;

-- The highest version that was issued. It is raised outside of transactions, under
-- the lock of the writer.
CREATE SEQUENCE ~.version MINVALUE 0 START 0;

-- journal: the highest seq of a row that has left. recent: up to which seq entries
-- were removed. unindexed: raised when records may have come without a text.
CREATE TABLE ~.counters (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value bigint NOT NULL
) WITH (fillfactor = 10);

INSERT INTO ~.counters (name, value) VALUES ('journal', 0), ('recent', 0), ('unindexed', 0);

CREATE FUNCTION ~.note_unindexed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ~.counters SET value = value + 1 WHERE name = 'unindexed';
    RETURN NULL;
END
$$;

CREATE TRIGGER records_unindexed AFTER UPDATE ON ~.records
    FOR EACH ROW WHEN (OLD.words IS NOT NULL AND NEW.words IS NULL)
    EXECUTE FUNCTION ~.note_unindexed();

-- What an operator may want to look at: the records that are plain JSON.
CREATE VIEW ~.documents AS
    SELECT namespace, category, key, version,
        to_timestamp(created / 1e6) AS created, to_timestamp(updated / 1e6) AS updated,
        CASE WHEN expires <> 0 THEN to_timestamp(expires / 1e6) END AS expires,
        CASE WHEN flags & 256 <> 0 THEN convert_from(value, 'UTF8')::json END AS value
    FROM ~.records
    WHERE flags & 256 <> 0 AND (expires = 0 OR to_timestamp(expires / 1e6) > statement_timestamp());

CREATE TABLE ~.facts (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value bytea NOT NULL
);

-- What has to reach a tier, at most one row for a key. A change of a row gives it a
-- new seq. over is the version that the row may replace, NULL for any lower one;
-- queued is since when the key has been pending.
CREATE TABLE ~.journal (
    seq       bigint NOT NULL PRIMARY KEY,
    tier      text   COLLATE "C" NOT NULL,
    namespace text   COLLATE "C" NOT NULL,
    category  text   COLLATE "C" NOT NULL,
    key       text   COLLATE "C" NOT NULL,
    owner     text   COLLATE "C" NOT NULL,
    over      bigint,
    deleted   boolean NOT NULL,
    queued    bigint NOT NULL,
    bytes     bigint NOT NULL,
    codec     text   COLLATE "C" NOT NULL,
    schema    bigint NOT NULL,
    flags     int    NOT NULL,
    version   bigint NOT NULL,
    created   bigint NOT NULL,
    updated   bigint NOT NULL,
    expires   bigint NOT NULL,
    value     bytea  NOT NULL,
    UNIQUE (tier, namespace, category, key)
);

CREATE INDEX journal_due ON ~.journal (tier, seq);

-- Sums over the journal, and the highest version that it has issued for a tier.
CREATE TABLE ~.journal_tiers (
    tier    text COLLATE "C" NOT NULL PRIMARY KEY,
    version bigint NOT NULL,
    entries bigint NOT NULL,
    bytes   bigint NOT NULL
) WITH (fillfactor = 10);

-- What has left the journal because it was applied, the last of each key.
CREATE TABLE ~.recent (
    tier      text   COLLATE "C" NOT NULL,
    namespace text   COLLATE "C" NOT NULL,
    category  text   COLLATE "C" NOT NULL,
    key       text   COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    version   bigint NOT NULL,
    deleted   boolean NOT NULL,
    expires   bigint NOT NULL,
    PRIMARY KEY (tier, namespace, category, key)
);

CREATE INDEX recent_seq ON ~.recent (seq);

CREATE TABLE ~.sessions (
    namespace  text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    started    bigint NOT NULL,
    seen       bigint NOT NULL,
    ended      bigint NOT NULL,
    seq        bigint NOT NULL,
    PRIMARY KEY (namespace, id)
);

CREATE INDEX sessions_seq ON ~.sessions (seq);

-- The transactions that were committed, for at least a day.
CREATE TABLE ~.commits (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    at bigint NOT NULL
);

CREATE INDEX commits_at ON ~.commits (at);

-- Locks of those who are behind a pooler, which has no sessions to hold them.
CREATE TABLE ~.leases (
    name   text COLLATE "C" NOT NULL PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    until  bigint NOT NULL
);
