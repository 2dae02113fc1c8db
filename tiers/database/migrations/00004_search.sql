-- +goose Up

-- The full-text index of the records whose flags have 256 set, by their rowid. The
-- words come folded and separated by spaces; of a text every three characters are
-- indexed, folded as well. Neither text is kept.
CREATE VIRTUAL TABLE search_words USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');

CREATE VIRTUAL TABLE search_parts USING fts5(text, content='', contentless_delete=1, detail=none, tokenize='trigram case_sensitive 1');

-- unindexed: raised when records may have come without an entry.
INSERT INTO counters (name, value) VALUES ('unindexed', 0);

-- +goose StatementBegin
CREATE TRIGGER records_unindex AFTER DELETE ON records WHEN old.flags >= 256 BEGIN
    DELETE FROM search_words WHERE rowid = old.rowid;
    DELETE FROM search_parts WHERE rowid = old.rowid;
END;
-- +goose StatementEnd
