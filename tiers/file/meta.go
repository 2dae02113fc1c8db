package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

// The dot-file beside a record says what the record's own file can't: when it
// was created, when it expires, the schema number when it is not 1. It is there
// only when there is something to say. Each entry holds from a version on, up to
// the next entry; so the new one can be written before the value it belongs to,
// and a hand edit keeps what was said about the record.

// metaLimit bounds what is read of a dot-file.
const metaLimit = 64 << 10

func metaName(stem string) string { return "." + stem + metaEnding }

// meta is the content of a dot-file.
type meta struct {
	Entries []entry `json:"entries"`
}

type entry struct {
	From    tiers.Version `json:"from"`
	Created time.Time     `json:"created,omitzero"` // zero: the record's time
	Updated time.Time     `json:"updated,omitzero"` // zero: the record's time; only of version From itself
	Expires time.Time     `json:"expires,omitzero"` // zero: never
	Schema  *uint32       `json:"schema,omitempty"` // nil: 1; only of JSON, an envelope says its own
}

// readMeta answers the dot-file; one that is not there says nothing.
func readMeta(d *filetree.Dir, stem string) (m meta, err error) {
	content, _, err := d.Read(metaName(stem), metaLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return meta{}, nil
	}
	if err != nil {
		return meta{}, err
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return meta{}, tiers.Hint(fmt.Errorf("%w: %s: %w", tiers.ErrCorrupt, d.Path(metaName(stem)), err),
			"mend or remove that file; without it the record has no expiry, and was created when it was last changed")
	}
	return m, nil
}

func (m meta) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

// at answers the entry that holds for a version; ok is false when all begin
// later.
func (m meta) at(v tiers.Version) (e entry, ok bool) {
	for _, c := range m.Entries {
		if c.From <= v && (!ok || c.From >= e.From) {
			e, ok = c, true
		}
	}
	return e, ok
}

// describe fills the times, and the schema of a record of that version.
func (e entry) describe(r *tiers.Record) {
	at := filetree.TimeOf(r.Version)
	r.Created, r.Updated, r.Expires, r.Schema = at, at, tiers.Micro(e.Expires), 1
	if !e.Created.IsZero() {
		r.Created = tiers.Micro(e.Created)
	}
	if !e.Updated.IsZero() && e.From == r.Version {
		r.Updated = tiers.Micro(e.Updated)
	}
	if e.Schema != nil {
		r.Schema = *e.Schema
	}
}

// entryOf is what has to be said about a record, from its version on.
func entryOf(r tiers.Record) entry {
	e := entry{From: r.Version, Expires: r.Expires}
	at := filetree.TimeOf(r.Version)
	if !r.Created.Equal(at) {
		e.Created = r.Created
	}
	if !r.Updated.Equal(at) {
		e.Updated = r.Updated
	}
	if r.Schema != 1 {
		e.Schema = &r.Schema
	}
	return e
}

// says tells whether the entry, as it is, is right for a record of a version.
func (e entry) says(r tiers.Record, inEnvelope bool) bool {
	got := tiers.Record{Version: r.Version}
	e.describe(&got)
	return got.Created.Equal(r.Created) && got.Updated.Equal(r.Updated) && got.Expires.Equal(r.Expires) &&
		(inEnvelope || got.Schema == r.Schema)
}

// grave tells whether a record would be wrong, rather than only be said to be
// younger, if the entry got lost in a power cut and the value did not.
func (e entry) grave() bool { return !e.Expires.IsZero() || e.Schema != nil }
