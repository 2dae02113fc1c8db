-- +goose Up

-- Entries of the full-text index have a place by which they sort; flags, above the
-- lowest eight bits, is that of the record. The index is made again by who made it.
DROP TRIGGER records_unindex;
DROP TABLE search_words;
DROP TABLE search_parts;
UPDATE records SET flags = flags & 255 WHERE flags >= 256;
UPDATE counters SET value = value + 1 WHERE name = 'unindexed';

CREATE VIRTUAL TABLE search_words USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');

CREATE VIRTUAL TABLE search_parts USING fts5(text, content='', contentless_delete=1, detail=none, tokenize='trigram case_sensitive 1');

CREATE INDEX records_found ON records (flags >> 8) WHERE flags >= 256;

-- +goose StatementBegin
CREATE TRIGGER records_unindex AFTER DELETE ON records WHEN old.flags >= 256 BEGIN
    DELETE FROM search_words WHERE rowid = old.flags >> 8;
    DELETE FROM search_parts WHERE rowid = old.flags >> 8;
END;
-- +goose StatementEnd
