package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sagestore/sagestore/tiers"
)

// isText is the flag of a row whose value is a text of JSON, above those of
// tiers.Flags; SQL says 256.
const isText = 1 << 8

// packed is a record made ready for the writer: checked, and without any memory
// of the caller's, who may go away before the writer is done.
type packed struct {
	tiers.Record // without its value and index text
	value        []byte
	flags        int32  // of the row
	found        *found // nil: there is nothing to find it by
}

func (p *packed) bytes() int { return len(p.Name) + len(p.value) + p.found.bytes() }

// flagsOf are those of the row of a record.
func flagsOf(r *tiers.Record) int32 {
	if r.Codec == "json" && r.Flags == 0 && json.Valid(r.Value) && utf8.Valid(r.Value) && readable(r.Value) {
		return isText
	}
	return int32(r.Flags)
}

// readable tells whether the server can work with a text of JSON: with a NUL or half a
// surrogate pair, both of which only come escaped, it can't, nor then with any query
// that meets the record.
func readable(text []byte) bool {
	return !bytes.Contains(text, []byte(`\u0000`)) && !bytes.Contains(text, []byte(`\ud`)) && !bytes.Contains(text, []byte(`\uD`))
}

func (t *Tier) prepare(r *tiers.Record) (*packed, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if len(r.Value) > maxValue {
		return nil, fmt.Errorf("%w: the value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(r.Value), maxValue)
	}
	if err := checkCodec(r.Codec); err != nil {
		return nil, err
	}
	f, err := packIndex(r)
	if err != nil {
		return nil, err
	}
	p := &packed{Record: *r, value: append([]byte{}, r.Value...), flags: flagsOf(r), found: f}
	p.Value, p.Index = nil, nil
	return p, nil
}

// checkCodec refuses what no text column can hold.
func checkCodec(name string) error {
	if text(name) != name {
		return fmt.Errorf("%w: the name %q has a NUL or is not UTF-8", tiers.ErrCodec, name)
	}
	return nil
}

// found is what a record is to be found by, as the server reads it.
type found struct {
	words string // see entryWords
	grams string // an array of numbers, as a literal
}

func (f *found) bytes() int {
	if f == nil {
		return 0
	}
	return len(f.words) + len(f.grams)
}

func (f *found) asWords() *string {
	if f == nil {
		return nil
	}
	return &f.words
}

func (f *found) asGrams() *string {
	if f == nil {
		return nil
	}
	return &f.grams
}

// packIndex answers what goes into the index, nil for nothing. What is encrypted
// must not be there in the clear.
func packIndex(r *tiers.Record) (*found, error) {
	if r.Index == nil || r.Deleted || r.Flags&tiers.Encrypted != 0 {
		return nil, nil //nolint:nilnil // there is nothing to do
	}
	if err := r.Index.Check(); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, g := range gramsOf(r.Index.Text) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(g, 10))
	}
	b.WriteByte('}')
	return &found{words: entryWords(r.Index), grams: b.String()}, nil
}

// gramsOf are the parts of three characters of a text, each as a number, in order and
// each once.
func gramsOf(text string) []int64 {
	const bits = 21 // of a character
	grams := make([]int64, 0, max(0, len(text)-2))
	var last int64
	n := 0
	for _, r := range text {
		last = (last<<bits | int64(r)) & (1<<(3*bits) - 1)
		if n++; n >= 3 {
			grams = append(grams, last)
		}
	}
	slices.Sort(grams)
	return slices.Compact(grams)
}
