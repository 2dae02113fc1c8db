package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sagestore/sagestore/internal/sessionlog"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// Event is something that happened in a session. As JSON it is a JSON-RPC 2.0
// notification, see [Event.MarshalJSON].
type Event struct { //nolint:recvcheck // UnmarshalJSON alone changes it
	Seq      uint64    // its place in the log, from 1; given by Append
	ID       string    // what makes it the same event when it is appended again
	Session  string    // params.session_id
	Turn     string    // params.turn_id; "" when it belongs to none
	Method   string    // such as "user.prompt.submit"
	Time     time.Time // params.timestamp: when it happened, by whoever tells of it
	Received time.Time // when it was appended first, in milliseconds

	// Params are the other params, as they came: a JSON object for the payloads of
	// this package, and nil when there are none. The event's owner may change what
	// Params points to only before it is appended.
	Params json.RawMessage
	// More holds members of the notification that JSON-RPC does not know, as one
	// JSON object; nil when there are none.
	More json.RawMessage
}

// Payload is the typed form of an event's params.
type Payload interface{ Method() string }

// NewEvent answers an event with an ID of its own. Its time is that of the
// append unless the caller sets Time.
func NewEvent(session, turn string, p Payload) (Event, error) {
	id, err := newID()
	if err != nil {
		return Event{}, err
	}
	params, err := serializer.JSON().Append(nil, p)
	if err != nil {
		return Event{}, &tiers.Error{Op: "make event", Key: session, Err: err}
	}
	return Event{ID: id, Session: session, Turn: turn, Method: p.Method(), Params: params}, nil
}

// newID answers an ID that is after all earlier ones, so that the index of a log
// grows at its end and an append costs the same however long it is.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an ID: %w", err)
	}
	return id.String(), nil
}

// As answers the typed form of an event's params; fields that P does not have
// stay in Params only. tiers.ErrType: the event has another method, or params
// that do not fit.
func As[P Payload](e Event) (P, error) {
	var p P
	if m := p.Method(); m != e.Method {
		return p, &tiers.Error{Op: "read event", Key: e.Session, Err: fmt.Errorf("%w: event %d is %s, not %s", tiers.ErrType, e.Seq, e.Method, m)}
	}
	params := e.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	if err := serializer.JSON().Decode(params, &p); err != nil {
		return p, &tiers.Error{Op: "read event", Key: e.Session, Err: fmt.Errorf("event %d, %s: %w", e.Seq, e.Method, err)}
	}
	return p, nil
}

// stored is an event as session.events holds it; sequence and session are in the
// key.
type stored struct {
	ID       string          `json:"id"`
	Method   string          `json:"method"`
	Turn     string          `json:"turn,omitempty"`
	Time     string          `json:"time,omitempty"` // RFC 3339
	Received int64           `json:"received"`       // milliseconds since 1970
	Params   json.RawMessage `json:"params,omitempty"`
	More     json.RawMessage `json:"more,omitempty"`
}

func (e Event) stored() stored {
	r := stored{ID: e.ID, Method: e.Method, Turn: e.Turn, Received: e.Received.UnixMilli(), Params: e.Params, More: e.More}
	if !e.Time.IsZero() {
		r.Time = e.Time.Format(time.RFC3339Nano)
	}
	return r
}

func (r *stored) event(session string, seq uint64) (Event, error) {
	e := Event{
		Seq: seq, ID: r.ID, Session: session, Turn: r.Turn, Method: r.Method,
		Received: time.UnixMilli(r.Received).UTC(), Params: r.Params, More: r.More,
	}
	if r.Time != "" {
		t, err := time.Parse(time.RFC3339Nano, r.Time)
		if err != nil {
			return e, fmt.Errorf("%w: the time of event %d is no RFC 3339", tiers.ErrCorrupt, seq)
		}
		e.Time = t
	}
	return e, nil
}

// mostEvent bounds an event's params and other members together, in bytes, so
// that a batch fits into a transaction.
const mostEvent = 16 << 20

// check answers why the event can't be stored in the session.
func (e Event) check(session string) error {
	switch {
	case e.Session != "" && e.Session != session:
		return tiers.Hint(fmt.Errorf("%w: the event %q belongs to the session %q", tiers.ErrKey, e.ID, e.Session), "append it there, or leave Session empty")
	case e.Method == "" || !utf8.ValidString(e.Method):
		return fmt.Errorf("%w: the event %q has no method", tiers.ErrType, e.ID)
	case !utf8.ValidString(e.Turn):
		return fmt.Errorf("%w: the turn of the event %q is not UTF-8", tiers.ErrType, e.ID)
	case len(e.Params)+len(e.More) > mostEvent:
		return fmt.Errorf("%w: the event %q has %d bytes, %d are allowed", tiers.ErrTooLarge, e.ID, len(e.Params)+len(e.More), mostEvent)
	case e.Time.Year() < 0 || e.Time.Year() > 9999:
		return fmt.Errorf("%w: the time of the event %q is in the year %d", tiers.ErrType, e.ID, e.Time.Year())
	}
	if err := tiers.CheckName(idKey(session, e.ID)); err != nil {
		return tiers.Hint(err, "the IDs of session and event are part of a key")
	}
	if e.Params != nil && !isJSON(e.Params, "{[") || e.More != nil && !isJSON(e.More, "{") {
		return fmt.Errorf("%w: params of the event %q are no JSON object", tiers.ErrType, e.ID)
	}
	return nil
}

// isJSON tells whether text is one JSON value that begins with one of the bytes.
func isJSON(text []byte, first string) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && bytes.IndexByte([]byte(first), text[0]) >= 0 && json.Valid(text)
}

// The keys of a session's log in session.events. The log's own record is under
// the session's key, its events and the index of their IDs are below it.
func logKey(session string) string { return sessionlog.Key(session) }

func eventPrefix(session string) string { return sessionlog.Events(session, "e") }

func eventKey(session string, seq uint64) string {
	return fmt.Sprintf("%s%016d", eventPrefix(session), seq)
}

func idKey(session, id string) string { return manager.Key(session, "i", id) }

// seqOf reads the sequence number of an event's key, 0 for another one.
func seqOf(prefix, key string) uint64 {
	var seq uint64
	digits := []byte(key)[min(len(prefix), len(key)):]
	if len(digits) != 16 {
		return 0
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0
		}
		seq = 10*seq + uint64(d-'0')
	}
	return seq
}
