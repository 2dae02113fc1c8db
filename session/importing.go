package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/sagestore/sagestore/internal/halves"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// parseLine reads the event of a line and sees to it that it has an ID. twins
// counts the lines with the same text.
func parseLine(codec serializer.Codec, text []byte, twins map[string]int) (Event, error) {
	if err := halves.Check(text); err != nil {
		return Event{}, err
	}
	var whole map[string]any // that nothing in it is written twice, or too deep
	if err := codec.Decode(text, &whole); err != nil {
		if !errors.Is(err, tiers.ErrCorrupt) {
			err = fmt.Errorf("%w: it is no JSON object", tiers.ErrCorrupt)
		}
		return Event{}, err
	}
	var e Event
	if err := e.UnmarshalJSON(text); err != nil {
		return Event{}, err
	}
	if e.ID == "" {
		plain, err := Event{Session: e.Session, Turn: e.Turn, Method: e.Method, Time: e.Time, Params: e.Params, More: e.More}.MarshalJSON()
		if err != nil {
			return Event{}, err
		}
		sum := sha256.Sum256(plain)
		e.ID = "line-" + hex.EncodeToString(sum[:16])
		twins[e.ID]++
		if n := twins[e.ID]; n > 1 {
			e.ID += "-" + strconv.Itoa(n)
		}
	}
	return e, nil
}

// An import writes at most this much in one transaction.
const (
	mostInImport  = 256
	bytesInImport = 8 << 20
	mostFaults    = 100
)

// Import reads the logs of sessions from JSON Lines, as [Store.Export] and others
// write them, and tells how many events were added and how many were there already:
// a second import adds nothing. Events keep their order, IDs and times. They come
// behind those that the log has. A session that is not there is made; when its log
// ends in a session.stop, it counts as ended. Nothing that goes on here is ended by
// an import, and no usage is counted.
//
// Damaged lines are left out, and are part of the error as [LineError], up to 100
// of them; all others are imported. After another error what was added until then
// stays, and the import can be done again.
func (s *Store) Import(ctx context.Context, r io.Reader) (added, skipped int, err error) {
	var errs []error
	left := 0
	b := batch{s: s, added: &added, skipped: &skipped}
	for line, err := range Lines(r) {
		e := line.Event
		_, damaged := errors.AsType[*LineError](err)
		if err == nil {
			if err = s.checkImport(e); err != nil {
				err, damaged = &LineError{line.Number, err}, true
			}
		}
		switch {
		case err == nil:
			if err := b.add(ctx, e); err != nil {
				return added, skipped, fail("import", e.Session, err)
			}
		case !damaged:
			return added, skipped, fail("import", "", errors.Join(err, b.flush(ctx)))
		case len(errs) < mostFaults:
			errs = append(errs, err)
		default:
			left++
		}
	}
	if left > 0 {
		errs = append(errs, fmt.Errorf("%w: %d more lines", tiers.ErrCorrupt, left))
	}
	errs = append(errs, fail("import", b.session, b.flush(ctx)))
	return added, skipped, errors.Join(errs...)
}

// ImportState brings in what a session had at hand elsewhere, and tells whether it was
// added: a session that is there stays as it is. The log is empty; it is for
// [Store.Import], and a session whose log ends in a session.stop then has ended. The
// agent that it belongs to may come later. Context of one that has ended is left out,
// and so are preferences where the user has some.
func (s *Store) ImportState(ctx context.Context, st State) (added bool, err error) {
	if err := checkNewID(st.SessionID); err != nil {
		return false, fail("import", st.SessionID, err)
	}
	err = s.update(ctx, st.SessionID, func(v view) error {
		added = false
		i := identity{ID: st.SessionID, User: st.UserID, Agent: st.AgentID, Started: st.StartedAt, Ended: st.EndedAt}
		there, err := v.identities.Exists(ctx, manager.Key(i.ID))
		if err != nil || there {
			return err
		}
		if i.Started.IsZero() {
			i.Started = v.now()
		}
		w, err := v.begin(ctx, i, false)
		if err != nil {
			return err
		}
		w.head.Imported, w.head.Ended = true, !i.Ended.IsZero()
		if err := v.logs.Save(ctx, logKey(i.ID), w.head); err != nil {
			return err
		}
		if !i.Ended.IsZero() {
			st.Context = nil
		}
		if i.User != "" && st.Preferences != nil {
			if has, err := v.prefs.Exists(ctx, manager.Key(i.User)); err != nil {
				return err
			} else if has {
				st.Preferences, i.Prefs = nil, true
			}
		}
		if err := v.saveParts(ctx, &i, st, 0); err != nil {
			return err
		}
		added = true
		return v.identities.Save(ctx, manager.Key(i.ID), i)
	})
	return added && err == nil, fail("import", st.SessionID, err)
}

func (s *Store) checkImport(e Event) error {
	if e.Session == "" {
		return fmt.Errorf("%w: its params have no session_id", tiers.ErrCorrupt)
	}
	if err := checkNewID(e.Session); err != nil {
		return err
	}
	return e.check(e.Session)
}

// batch gathers events of one session.
type batch struct {
	s              *Store
	session        string
	events         []Event
	bytes          int
	added, skipped *int
}

func (b *batch) add(ctx context.Context, e Event) error {
	size := len(e.Params) + len(e.More)
	if e.Session != b.session || len(b.events) >= mostInImport || len(b.events) > 0 && b.bytes+size > bytesInImport {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.session = e.Session
	b.events, b.bytes = append(b.events, e), b.bytes+size
	return nil
}

func (b *batch) flush(ctx context.Context) error {
	if len(b.events) == 0 {
		return nil
	}
	fresh := 0
	err := b.s.update(ctx, b.session, func(v view) (err error) {
		fresh, err = v.importAll(ctx, b.session, b.events)
		return err
	})
	if err == nil {
		*b.added += fresh
		*b.skipped += len(b.events) - fresh
		b.events, b.bytes = nil, 0
	}
	return err
}

// importAll adds the events that are new, and answers how many these were.
func (v view) importAll(ctx context.Context, id string, events []Event) (fresh int, err error) {
	w, err := v.open(ctx, id)
	if errors.Is(err, tiers.ErrNotFound) {
		i := identity{ID: id, Started: events[0].Time}
		if i.Started.IsZero() {
			i.Started = v.now()
		}
		if w, err = v.begin(ctx, i, false); err == nil {
			w.head.Imported = true
		}
	}
	if err == nil {
		err = w.look(ctx, events)
	}
	if err != nil {
		return 0, err
	}
	wasEnded := w.head.Ended
	for _, e := range events {
		if _, there := w.seqs[e.ID]; there {
			continue
		}
		if e.Received.IsZero() {
			e.Received = v.now()
		}
		w.place(e)
	}
	if len(w.added) == 0 {
		return 0, nil
	}
	w.head.Ended, w.ends = wasEnded, nil
	if w.head.Imported {
		if err := w.settle(ctx); err != nil {
			return 0, err
		}
	}
	return len(w.added), w.flushQuietly(ctx)
}

// settle lets a session that was only imported have ended when its log says so.
func (w *writer) settle(ctx context.Context) error {
	last := w.added[len(w.added)-1]
	w.head.Ended = last.Method == methodStop
	i, err := w.identities.Load(ctx, logKey(w.id))
	if err != nil {
		return unknown(err)
	}
	was := i.Ended
	if i.Ended = (time.Time{}); w.head.Ended {
		if i.Ended = last.Time; i.Ended.IsZero() {
			i.Ended = last.Received
		}
	}
	if i.Ended.Equal(was) {
		return nil
	}
	return w.identities.Save(ctx, logKey(w.id), i)
}
