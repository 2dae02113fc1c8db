package postgres

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// A copy is a text that psql can read when the search path names the schema: two lines
// with the marks, then each table as COPY writes it
// (https://www.postgresql.org/docs/current/sql-copy.html, "Text Format"), and a last line
// that says that it is whole.
const (
	headFormat = "-- sagestore: a copy of schema %d, version %d, sequence %d\nSELECT setval('version', %d);\n"
	endOfTable = `\.`
	endOfCopy  = "-- sagestore: the end"
	// maxLine bounds a line: a value is two characters for each byte.
	maxLine = 2*maxValue + 1<<20
)

func headOf(m mark) string {
	return fmt.Sprintf(headFormat, schemaNow, m.version, m.sequence, m.version)
}

// The kinds of columns.
const (
	aText   = 't'
	aNumber = 'n'
	aBytes  = 'b'
	aTruth  = 'f'
	aMaybe  = 'o' // a number or NULL
)

type column struct {
	name string
	kind byte
}

// copyTable is a table of a copy.
type copyTable struct {
	name    string
	columns []column
	order   string
}

func (t *copyTable) list() string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

func (t *copyTable) begin() string { return "COPY " + t.name + " (" + t.list() + ") FROM stdin;\n" }

// copied are the tables of a copy. What records are found by is left out: whoever
// searches makes it anew. Leases end with their processes.
func copied() []copyTable {
	texts := func(names ...string) (all []column) {
		for _, name := range names {
			all = append(all, column{name, aText})
		}
		return all
	}
	numbers := func(names ...string) (all []column) {
		for _, name := range names {
			all = append(all, column{name, aNumber})
		}
		return all
	}
	join := func(parts ...[]column) (all []column) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	value := []column{{"value", aBytes}}
	return []copyTable{
		{"records", join(texts("namespace", "category", "key", "codec"), numbers("schema", "flags", "version", "created", "updated", "expires"), value), "namespace, category, key"},
		{"counters", join(texts("name"), numbers("value")), "name"},
		{"facts", join(texts("name"), value), "name"},
		{"journal", join(
			texts("tier", "namespace", "category", "key", "owner", "codec"), []column{{"over", aMaybe}, {"deleted", aTruth}},
			numbers("seq", "queued", "bytes", "schema", "flags", "version", "created", "updated", "expires"), value), "seq"},
		{"journal_tiers", join(texts("tier"), numbers("version", "entries", "bytes")), "tier"},
		{"recent", join(texts("tier", "namespace", "category", "key"), numbers("seq", "version", "expires"), []column{{"deleted", aTruth}}), "tier, namespace, category, key"},
		{"sessions", join(texts("namespace", "id"), numbers("generation", "started", "seen", "ended", "seq")), "namespace, id"},
		{"commits", join(texts("id"), numbers("at")), "id"},
	}
}

// copyReader reads the lines of a copy.
type copyReader struct {
	r    *bufio.Reader
	at   int64 // where the next line begins
	line []byte
}

func newCopyReader(r io.Reader, at int64) *copyReader {
	return &copyReader{r: bufio.NewReaderSize(r, 64<<10), at: at}
}

// next answers the next line without its end, until the one after is read.
func (r *copyReader) next() ([]byte, error) {
	r.line = r.line[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		r.line = append(r.line, part...)
		switch {
		case err == nil:
			r.at += int64(len(r.line))
			return r.line[:len(r.line)-1], nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: the copy ends before its end", tiers.ErrCorrupt)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(r.line) > maxLine:
			return nil, fmt.Errorf("%w: a line of the copy is too long", tiers.ErrCorrupt)
		}
	}
}

func (r *copyReader) expect(want string) error {
	line, err := r.next()
	if err == nil && string(line) != want {
		err = fmt.Errorf("%w: the copy has %.60q instead of %.60q", tiers.ErrCorrupt, line, want)
	}
	return err
}

// head reads the first lines.
func (r *copyReader) head() (m mark, err error) {
	line, err := r.next()
	if err != nil {
		return m, err
	}
	var schema int64
	n, err := fmt.Sscanf(string(line[:min(len(line), 200)]), strings.SplitN(headFormat, "\n", 2)[0], &schema, &m.version, &m.sequence)
	if err != nil || n != 3 || schema < 1 || m.version < 0 || m.version > maxVersion || m.sequence < 0 {
		return m, fmt.Errorf("%w: it is no copy of a store on PostgreSQL: it begins with %.60q", tiers.ErrCorrupt, line)
	}
	if schema > schemaNow {
		return m, tiers.Hint(fmt.Errorf("%w: the copy has schema %d, this version knows up to %d", tiers.ErrSchema, schema, schemaNow), "use the newer version of sagestore that made it")
	}
	return m, r.expect(fmt.Sprintf("SELECT setval('version', %d);", m.version))
}

// table visits the rows of a table, in order. at is where the row begins.
func (r *copyReader) table(t *copyTable, visit func(at int64, line []byte) error) error {
	if err := r.expect(strings.TrimSuffix(t.begin(), "\n")); err != nil {
		return err
	}
	for {
		at := r.at
		line, err := r.next()
		if err != nil {
			return err
		}
		if string(line) == endOfTable {
			return nil
		}
		if err := visit(at, line); err != nil {
			return err
		}
	}
}

// end sees that nothing comes after the last table.
func (r *copyReader) end() error {
	if err := r.expect(endOfCopy); err != nil {
		return err
	}
	if _, err := r.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w: something comes behind the end of the copy", tiers.ErrCorrupt), err)
	}
	return nil
}

// copyRow is a row of a copy.
type copiedRow struct {
	text    []string
	numbers []int64
	bytes   []byte
	over    *int64
	truth   bool
}

// parse reads a row of the table.
func (t *copyTable) parse(line []byte) (row copiedRow, err error) {
	fields := bytes.Split(line, []byte{'\t'})
	if len(fields) != len(t.columns) {
		return row, fmt.Errorf("%w: a row of the table %s has %d columns, not %d", tiers.ErrCorrupt, t.name, len(fields), len(t.columns))
	}
	for i, c := range t.columns {
		if err := row.add(c.kind, fields[i]); err != nil {
			return row, fmt.Errorf("%w: column %s of a row of the table %s: %w", tiers.ErrCorrupt, c.name, t.name, err)
		}
	}
	return row, nil
}

func (r *copiedRow) add(kind byte, field []byte) error {
	null := string(field) == `\N`
	if null && kind != aMaybe {
		return errors.New("it is NULL")
	}
	switch kind {
	case aText:
		s, err := unescape(field)
		r.text = append(r.text, s)
		return err
	case aTruth:
		r.truth = string(field) == "t"
		if !r.truth && string(field) != "f" {
			return errors.New("it is neither t nor f")
		}
		return nil
	case aBytes:
		digits, ok := bytes.CutPrefix(field, []byte(`\\x`))
		if !ok {
			return errors.New("it is not in hexadecimal")
		}
		r.bytes = make([]byte, hex.DecodedLen(len(digits)))
		_, err := hex.Decode(r.bytes, digits)
		return err
	}
	if null {
		return nil
	}
	n, err := strconv.ParseInt(string(field), 10, 64)
	if kind == aMaybe {
		r.over = &n
	} else {
		r.numbers = append(r.numbers, n)
	}
	return err
}

// unescape reads a text of a copy.
func unescape(field []byte) (string, error) {
	if bytes.IndexByte(field, '\\') < 0 {
		return string(field), nil
	}
	out := make([]byte, 0, len(field))
	for i := 0; i < len(field); i++ {
		c := field[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		if i++; i == len(field) {
			return "", errors.New("it ends in a backslash")
		}
		at := strings.IndexByte(`\btnvfr`, field[i])
		if at < 0 {
			return "", fmt.Errorf("it has the unknown escape \\%c", field[i])
		}
		out = append(out, "\\\b\t\n\v\f\r"[at])
	}
	return string(out), nil
}

// escape writes a text of a copy.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\b", `\b`, "\t", `\t`, "\n", `\n`, "\v", `\v`, "\f", `\f`, "\r", `\r`).Replace(s)
}

// record makes one of a row of the table records.
func (r *copiedRow) record() (tiers.Record, error) {
	rec := tiers.Record{Key: tiers.Key{Namespace: r.text[0], Category: r.text[1], Name: r.text[2]}}
	if err := rec.Check(); err != nil {
		return rec, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	n := r.numbers
	if n[0] < 0 || n[0] > 1<<32-1 || n[1] < 0 || n[1] > 511 || n[2] < 1 {
		return rec, fmt.Errorf("%w: schema %d, flags %d, version %d", tiers.ErrCorrupt, n[0], n[1], n[2])
	}
	rec.Codec, rec.Value = r.text[3], notNil(r.bytes)
	rec.Schema, rec.Flags, rec.Version = uint32(n[0]), tiers.Flags(n[1]&0xff), version(n[2]) //nolint:gosec // checked
	rec.Created, rec.Updated, rec.Expires = tiers.FromMicro(n[3]), tiers.FromMicro(n[4]), tiers.FromMicro(n[5])
	return rec, nil
}
