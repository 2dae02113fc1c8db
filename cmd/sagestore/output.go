package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// entry is the JSON shape of an entry.
type entry struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value,omitempty"`
	Version tiers.Version   `json:"version"`
	Created time.Time       `json:"created"`
	Updated time.Time       `json:"updated"`
	Expires *time.Time      `json:"expires,omitempty"`
	Tier    string          `json:"tier"`
	Codec   string          `json:"codec"`
	Schema  uint32          `json:"schema"`
	Bytes   int             `json:"bytes"`
}

func entryOf(i manager.Item) entry {
	e := entry{
		Key: i.Key, Version: i.Version, Created: i.Created, Updated: i.Updated,
		Tier: i.Tier, Codec: i.Codec, Schema: i.Schema, Bytes: i.Size(),
	}
	if !i.Expires.IsZero() {
		e.Expires = &i.Expires
	}
	return e
}

// unreadable is the JSON shape of an entry of a list that can't be read.
type unreadable struct {
	Key   string `json:"key"`
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// encode answers v as JSON, with every number and character as it is.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// printJSON prints v indented.
func (a *app) printJSON(v any) error {
	b, err := encode(v, "  ")
	if err != nil {
		return err
	}
	_, err = a.out.Write(b)
	return err
}

// printLine prints v as one line of JSON.
func (a *app) printLine(v any) error {
	b, err := encode(v, "")
	if err != nil {
		return err
	}
	_, err = a.out.Write(b)
	return err
}

func (a *app) printValue(v json.RawMessage) error {
	_, err := fmt.Fprintf(a.out, "%s\n", v)
	return err
}

// shown is a key or an id as a line of text shows it: quoted when it would break
// the line, talk to the terminal, or look like one that is quoted.
func shown(key string) string {
	odd := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
	if strings.ContainsFunc(key, odd) || strings.HasPrefix(key, `"`) {
		return strconv.Quote(key)
	}
	return key
}

// instant is how times are printed; the zero time is nothing.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// many counts things in words: 1 record, 2 records.
func many[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
