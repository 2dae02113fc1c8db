package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// seenSession is a session that events come in for.
type seenSession struct {
	there bool
	ids   map[string]bool // of the events that it has; only for a dry run
}

// sessionLog brings in JSON Lines of events.
func (im *importer) sessionLog(ctx context.Context, in io.Reader, fault func(line int, where string, err error)) error {
	return im.events(ctx, in, func(line int, err error) { fault(line, "", err) })
}

// eventTable brings in the events of a database, if it has any.
func (im *importer) eventTable(ctx context.Context, src *source, fault func(line int, where string, err error)) (err error) {
	db, err := openDatabase(ctx, src.path)
	if err != nil {
		return nil // the reading of its other tables has told
	}
	defer func() { _ = db.Close() }() // it was read only
	t, err := tablesOf(ctx, db)
	if err != nil || !t.events {
		return nil // see above
	}
	rows, err := openEvents(ctx, db, func(where string, err error) { fault(0, where, err) })
	if err != nil {
		fault(0, "", err)
		return nil
	}
	err = im.events(ctx, rows, func(line int, err error) { fault(0, fmt.Sprintf("row %d", rows.row(line)), err) })
	if closing := rows.close(); err == nil && closing != nil {
		fault(0, "", closing)
	}
	return err
}

// events brings in lines, a batch of one session after the other.
func (im *importer) events(ctx context.Context, in io.Reader, fault func(line int, err error)) error {
	b := eventBatch{im: im, fault: fault}
	for line, err := range session.Lines(in) {
		if bad, ok := errors.AsType[*session.LineError](err); ok {
			fault(bad.Line, bad.Err)
			continue
		}
		if err != nil {
			fault(line.Number, err)
			break
		}
		if line.Event.Session == "" {
			fault(line.Number, fmt.Errorf("%w: its params have no session_id", tiers.ErrCorrupt))
			continue
		}
		add := b.add
		if im.o.DryRun {
			add = im.eventDry
		}
		if err := add(ctx, line); err != nil {
			if fatal(ctx, err) {
				return err
			}
			fault(line.Number, err)
		}
	}
	return errors.Join(ctx.Err(), b.flush(ctx))
}

// eventBatch gathers events of one session.
type eventBatch struct {
	im      *importer
	fault   func(line int, err error)
	session string
	text    bytes.Buffer
	lines   []int
}

func (b *eventBatch) add(ctx context.Context, line session.Line) error {
	if _, err := b.im.session(ctx, line.Event.Session); err != nil {
		return err
	}
	text, err := line.Event.MarshalJSON()
	if err != nil {
		return err
	}
	if b.session != line.Event.Session || len(b.lines) >= mostMessages || b.text.Len()+len(text) > mostBytes {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.session, b.lines = line.Event.Session, append(b.lines, line.Number)
	b.text.Write(append(text, '\n'))
	return nil
}

// flush brings in what was gathered. What is fatal is answered, all else is told.
func (b *eventBatch) flush(ctx context.Context) error {
	if len(b.lines) == 0 {
		return nil
	}
	added, there, err := b.im.o.Sessions.Import(ctx, &b.text)
	b.im.sum.Events.Added += added
	b.im.sum.Events.There += there
	lines := b.lines
	b.text.Reset()
	b.lines = nil
	for _, one := range flat(err) {
		line, ok := errors.AsType[*session.LineError](one)
		switch {
		case ok && line.Line <= len(lines):
			b.fault(lines[line.Line-1], line.Err)
		case fatal(ctx, one):
			return one
		default:
			b.fault(lines[0], one)
		}
	}
	return nil
}

// session answers what is known of a session, and counts it the first time.
func (im *importer) session(ctx context.Context, id string) (*seenSession, error) {
	if s := im.sessions[id]; s != nil || id == "" {
		return s, nil
	}
	s := &seenSession{}
	_, err := im.o.Sessions.Info(ctx, id)
	if err != nil && !errors.Is(err, tiers.ErrNotFound) {
		return nil, err
	}
	s.there = err == nil
	if s.there {
		im.sum.Sessions.There++
	} else {
		im.sum.Sessions.Added++
	}
	im.sessions[id] = s
	return s, nil
}

// takeSession brings in what a session had at hand.
func (im *importer) takeSession(ctx context.Context, st *session.State) error {
	seen, err := im.session(ctx, st.SessionID)
	if err != nil || seen.there || im.o.DryRun {
		return err
	}
	if _, err := im.o.Sessions.ImportState(ctx, *st); err != nil {
		im.sum.Sessions.Added--
		delete(im.sessions, st.SessionID)
		return err
	}
	return nil
}

// eventDry counts what would be new.
func (im *importer) eventDry(ctx context.Context, line session.Line) error {
	s, err := im.session(ctx, line.Event.Session)
	if err != nil {
		return err
	}
	if s.ids == nil {
		if s.ids, err = im.eventIDs(ctx, line.Event.Session, s.there); err != nil {
			return err
		}
	}
	if s.ids[line.Event.ID] {
		im.sum.Events.There++
		return nil
	}
	s.ids[line.Event.ID] = true
	im.sum.Events.Added++
	return nil
}

func (im *importer) eventIDs(ctx context.Context, id string, there bool) (map[string]bool, error) {
	ids := map[string]bool{}
	if !there {
		return ids, nil
	}
	for e, err := range im.o.Sessions.Events(ctx, id, 0) {
		if err != nil && e.Seq == 0 {
			return nil, err
		}
		if err == nil {
			ids[e.ID] = true
		}
	}
	return ids, nil
}

// flat takes joined errors apart.
func flat(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, flat(one)...)
		}
		return all
	}
	return []error{err}
}
