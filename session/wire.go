package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/tiers"
)

// ownMember is the member of a notification that is this package's own.
const ownMember = "sagestore"

// meta is what a notification does not say of an event. Session, turn and time
// are there only when the params can't hold them.
type meta struct {
	ID       string `json:"id,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Received int64  `json:"received,omitempty"` // milliseconds since 1970
	Session  string `json:"session,omitempty"`
	Turn     string `json:"turn,omitempty"`
	Time     string `json:"time,omitempty"`
}

// member is one of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// MarshalJSON answers a JSON-RPC 2.0 notification: jsonrpc, method, and params
// with session_id, turn_id and timestamp beside Params. What is in More follows,
// and a member "sagestore" with the event's ID, its sequence number and when it
// was received, in milliseconds since 1970.
func (e Event) MarshalJSON() ([]byte, error) {
	params, err := members(e.Params)
	open := err == nil // params can take more members
	if err != nil && !isJSON(e.Params, "[") {
		return nil, fmt.Errorf("%w: params are no JSON object", tiers.ErrType)
	}
	more, err := members(e.More)
	if err != nil {
		return nil, err
	}
	own := meta{ID: e.ID, Seq: e.Seq}
	if !e.Received.IsZero() {
		own.Received = e.Received.UnixMilli()
	}
	var first, last []member
	place := func(into *[]member, name, value string, else_ *string) error {
		switch {
		case value == "":
			return nil
		case !open || has(params, name):
			*else_ = value
			return nil
		}
		text, err := plain(value)
		*into = append(*into, member{name, text})
		return err
	}
	at := ""
	if !e.Time.IsZero() {
		at = e.Time.Format(time.RFC3339Nano)
	}
	err = errors.Join(place(&first, "session_id", e.Session, &own.Session), place(&first, "turn_id", e.Turn, &own.Turn),
		place(&last, "timestamp", at, &own.Time))
	if err != nil {
		return nil, err
	}
	method, err := plain(e.Method)
	if err != nil {
		return nil, err
	}
	all := []member{{"jsonrpc", json.RawMessage(`"2.0"`)}, {"method", method}}
	switch {
	case !open:
		all = append(all, member{"params", e.Params})
	case e.Params != nil || len(first)+len(last) > 0:
		text, err := object(append(append(first, params...), last...))
		if err != nil {
			return nil, err
		}
		all = append(all, member{"params", text})
	}
	all = append(all, more...)
	if own != (meta{}) {
		text, err := json.Marshal(own)
		if err != nil {
			return nil, err
		}
		all = append(all, member{ownMember, text})
	}
	return object(all)
}

// UnmarshalJSON reads a JSON-RPC 2.0 notification, also of a method that is not
// known. tiers.ErrCorrupt: it is none.
func (e *Event) UnmarshalJSON(text []byte) error {
	all, err := members(text)
	if err != nil {
		return fmt.Errorf("%w: it is no JSON object: %w", tiers.ErrCorrupt, err)
	}
	if all == nil { // null, or nothing
		return fmt.Errorf("%w: it is no JSON object", tiers.ErrCorrupt)
	}
	*e = Event{}
	var own meta
	var more []member
	version := false
	for _, m := range all {
		switch m.name {
		case "jsonrpc":
			version = string(m.value) == `"2.0"`
		case "method":
			if why := json.Unmarshal(m.value, &e.Method); why != nil {
				err = errors.New(misfit.Why(m.value, &e.Method, why))
			}
		case "params":
			err = e.readParams(m.value)
		case ownMember:
			if why := json.Unmarshal(m.value, &own); why != nil {
				err = errors.New(misfit.Why(m.value, &own, why))
			}
		default:
			more = append(more, m)
		}
		if err != nil {
			return fmt.Errorf("%w: its %s: %w", tiers.ErrCorrupt, m.name, err)
		}
	}
	if !version || e.Method == "" {
		return fmt.Errorf(`%w: it is no JSON-RPC 2.0 notification, which has "jsonrpc":"2.0" and a method`, tiers.ErrCorrupt)
	}
	if len(more) > 0 {
		if e.More, err = object(more); err != nil {
			return err
		}
	}
	return e.takeOver(own)
}

// takeOver completes the event with what its params could not say.
func (e *Event) takeOver(own meta) error {
	e.ID, e.Seq = own.ID, own.Seq
	if own.Received != 0 {
		e.Received = time.UnixMilli(own.Received).UTC()
	}
	if e.Session == "" {
		e.Session = own.Session
	}
	if e.Turn == "" {
		e.Turn = own.Turn
	}
	if e.Time.IsZero() && own.Time != "" {
		at, ok := instantOf(own.Time)
		if !ok {
			return fmt.Errorf("%w: its time is no RFC 3339", tiers.ErrCorrupt)
		}
		e.Time = at
	}
	return nil
}

// readParams takes session, turn and time out of the params where they can be
// put back as they were. All else stays.
func (e *Event) readParams(text json.RawMessage) error {
	if isJSON(text, "[") {
		e.Params = bytes.Clone(text)
		return nil
	}
	all, err := members(text)
	if err != nil {
		return err
	}
	if all == nil {
		return errors.New("null")
	}
	rest := []member{}
	for _, m := range all {
		var value string
		isText := json.Unmarshal(m.value, &value) == nil && value != "" && m.value[0] == '"'
		switch {
		case isText && m.name == "session_id":
			e.Session = value
		case isText && m.name == "turn_id":
			e.Turn = value
		case isText && m.name == "timestamp":
			at, ok := instantOf(value)
			if !ok {
				rest = append(rest, m)
				continue
			}
			e.Time = at
		default:
			rest = append(rest, m)
		}
	}
	if len(rest) > 0 || len(all) == 0 {
		e.Params, err = object(rest)
	}
	return err
}

// instantOf reads a time that loses nothing when it is written again.
func instantOf(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.IsZero() {
		return time.Time{}, false
	}
	if _, fraction, ok := strings.Cut(text, "."); ok && strings.IndexFunc(fraction, func(r rune) bool { return r < '0' || r > '9' }) > 9 {
		return time.Time{}, false
	}
	return at, true
}

// members answers what an object holds, in its order; nil for no text and for
// null.
func members(text []byte) ([]member, error) {
	if len(text) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	first, err := dec.Token()
	switch {
	case err != nil:
		return nil, err
	case first == nil:
		return nil, nil
	case first != json.Delim('{'):
		return nil, errors.New("it is no object")
	}
	all, seen := []member{}, map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := name.(string)
		if seen[key] {
			return nil, fmt.Errorf("it has %q twice", key)
		}
		seen[key] = true
		m := member{name: key}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	_, err = dec.Token()
	return all, err
}

func has(all []member, name string) bool {
	for _, m := range all {
		if m.name == name {
			return true
		}
	}
	return false
}

// object is the inverse of members.
func object(all []member) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := plain(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		if err := json.Compact(&b, m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plain is a JSON text with its characters as they are.
func plain(s string) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
