package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// logHead is the record of a log: what an append has to know and changes.
type logHead struct {
	Born     string `json:"born,omitempty"`     // tells it from one of the same id before or after it; old logs have none
	Last     uint64 `json:"last"`               // sequence number of the last event
	Ended    bool   `json:"ended,omitempty"`    // nothing is appended until the session is resumed
	Imported bool   `json:"imported,omitempty"` // all of it came by Import
	Model    string `json:"model,omitempty"`    // of the last session.init
	Told     tally  `json:"told,omitzero"`      // usage that responses told of, since session.stop sums it up
}

// tally is usage as it is summed up.
type tally struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// place is the record under an event's ID.
type place struct {
	Seq uint64 `json:"seq"`
}

// Append adds events to the log of a session that goes on, all or none, and
// answers the sequence number of the last of them. An event whose ID the log has
// is not added again; its number is the one that it has. An event without ID gets
// a new one, so it can't be told from the same event appended again. An event
// without Time gets the time of the append.
//
// Many callers may append to one session: what they append meanwhile goes into one
// transaction. A session.stop has to be the last event, and does what [Store.End]
// does.
//
// tiers.ErrNotFound: there is no such session. tiers.ErrSessionEnded: it has
// ended; see [Store.Resume]. tiers.ErrCommitUnknown: append the same events again.
func (s *Store) Append(ctx context.Context, id string, events ...Event) (last uint64, err error) {
	fresh, err := s.prepare(id, events)
	if err != nil || len(fresh) == 0 {
		return 0, fail("append to", id, err)
	}
	if s.tx != nil {
		err = s.update(ctx, id, func(v view) error {
			last, err = v.append(ctx, id, fresh)
			return err
		})
		return last, fail("append to", id, err)
	}
	r := &request{events: fresh, done: make(chan struct{})}
	if err := s.queues.append(ctx, s, id, r); err != nil {
		return 0, fail("append to", id, err)
	}
	return r.last, fail("append to", id, r.err)
}

// prepare answers copies of the events that are ready to be stored.
func (s *Store) prepare(id string, events []Event) ([]Event, error) {
	if err := checkNewID(id); err != nil {
		return nil, err
	}
	fresh := make([]Event, len(events))
	now := s.now()
	for i, e := range events {
		if e.ID == "" {
			id, err := newID()
			if err != nil {
				return nil, err
			}
			e.ID = id
		}
		if e.Time.IsZero() {
			e.Time = now
		}
		e.Received = now
		if err := e.check(id); err != nil {
			return nil, err
		}
		if e.Method == methodStop && i < len(events)-1 {
			return nil, tiers.Hint(fmt.Errorf("%w: session.stop is followed by another event", tiers.ErrSessionEnded), "append it last")
		}
		e.Session, e.Seq = id, 0
		fresh[i] = e
	}
	return fresh, nil
}

// append adds events in a transaction.
func (v view) append(ctx context.Context, id string, events []Event) (last uint64, err error) {
	w, err := v.open(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := w.look(ctx, events); err != nil {
		return 0, err
	}
	if last, err = w.add(events); err != nil {
		return 0, err
	}
	return last, w.flush(ctx)
}

// writer adds events to one log in a transaction.
type writer struct {
	view
	id    string
	head  logHead
	seqs  map[string]uint64 // by ID: those that are there, and those that are added
	added []Event
	ends  *Event // the session.stop among them
}

func (v view) open(ctx context.Context, id string) (*writer, error) {
	head, err := v.logs.Load(ctx, logKey(id))
	if err != nil {
		return nil, unknown(err)
	}
	return &writer{view: v, id: id, head: head, seqs: map[string]uint64{}}, nil
}

// look asks which of the events the log has.
func (w *writer) look(ctx context.Context, events []Event) error {
	keys := make([]string, len(events))
	for i := range events {
		keys[i] = idKey(w.id, events[i].ID)
	}
	found, err := w.ids.LoadMany(ctx, keys...)
	for key, p := range found {
		segments := manager.SplitKey(key)
		w.seqs[segments[len(segments)-1]] = p.Seq
	}
	return err
}

// add gives the events that are new their places, and answers that of the last of
// all. An error leaves everything as it was.
func (w *writer) add(events []Event) (last uint64, err error) {
	before, count, ended := w.head, len(w.added), w.ends
	defer func() {
		if err != nil {
			for _, e := range w.added[count:] {
				delete(w.seqs, e.ID)
			}
			w.head, w.added, w.ends = before, w.added[:count], ended
		}
	}()
	for _, e := range events {
		if seq, there := w.seqs[e.ID]; there {
			last = seq
			continue
		}
		if w.head.Ended {
			return 0, tiers.Hint(tiers.ErrSessionEnded, "Resume lets it go on")
		}
		last = w.place(e)
		w.head.Imported = false
	}
	return last, nil
}

// place puts an event at the end.
func (w *writer) place(e Event) uint64 {
	w.head.Last++
	e.Seq = w.head.Last
	w.seqs[e.ID] = e.Seq
	w.added = append(w.added, e)
	switch e.Method {
	case methodInit:
		if init, err := As[Init](e); err == nil && init.Model != "" {
			w.head.Model = init.Model
		}
	case methodStop:
		w.head.Ended, w.ends = true, &w.added[len(w.added)-1]
	}
	return e.Seq
}

// flush writes what was added.
func (w *writer) flush(ctx context.Context) error {
	if len(w.added) == 0 {
		return nil
	}
	if err := w.account(ctx); err != nil {
		return err
	}
	if err := w.save(ctx); err != nil {
		return err
	}
	w.tx.OnCommit(func(context.Context) { w.watchers.tell(w.id) })
	if w.ends != nil {
		return w.end(ctx, w.id, w.ends.Received)
	}
	return nil
}

// save writes the records of what was added.
func (w *writer) save(ctx context.Context) error {
	events, ids := make(map[string]stored, len(w.added)), make(map[string]place, len(w.added))
	for i := range w.added {
		e := w.added[i]
		events[eventKey(w.id, e.Seq)] = e.stored()
		ids[idKey(w.id, e.ID)] = place{e.Seq}
	}
	return errors.Join(w.events.SaveMany(ctx, events), w.ids.SaveMany(ctx, ids), w.logs.Save(ctx, logKey(w.id), w.head))
}

// account adds what the events tell of usage to the ledger.
func (w *writer) account(ctx context.Context) error {
	if w.knowledge == nil {
		return nil
	}
	var all []knowledge.Usage
	for _, e := range w.added {
		u, model := usageOf(e)
		if u == nil {
			continue
		}
		told := tally{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens}
		if e.Method == methodStop { // it sums up what responses told of before
			told, w.head.Told = told.beyond(w.head.Told), tally{}
		} else {
			w.head.Told = w.head.Told.plus(told)
		}
		if told == (tally{}) {
			continue
		}
		if model == "" {
			model = w.head.Model
		}
		all = append(all, knowledge.Usage{
			ID: e.ID, Session: w.id, Model: model, At: e.Time,
			Input: told.Input, Output: told.Output, CacheRead: told.CacheRead, CacheWrite: told.CacheWrite,
		})
	}
	if len(all) == 0 {
		return nil
	}
	return w.knowledge.In(w.tx).AddUsage(ctx, all...)
}

// usageOf answers what an event tells of usage, if it does.
func usageOf(e Event) (u *Usage, model string) {
	switch e.Method {
	case methodStop:
		if stop, err := As[Stop](e); err == nil {
			return &stop.Usage, ""
		}
	case methodResponse:
		if r, err := As[AssistantResponse](e); err == nil {
			return r.Usage, r.Model
		}
	}
	return nil, ""
}

func (t tally) plus(u tally) tally {
	return tally{t.Input + u.Input, t.Output + u.Output, t.CacheRead + u.CacheRead, t.CacheWrite + u.CacheWrite}
}

// beyond is what t has more than u.
func (t tally) beyond(u tally) tally {
	return tally{max(0, t.Input-u.Input), max(0, t.Output-u.Output), max(0, t.CacheRead-u.CacheRead), max(0, t.CacheWrite-u.CacheWrite)}
}
