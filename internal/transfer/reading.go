package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/tiers"
)

// reading is the reading of one file.
type reading struct {
	src   *source
	in    io.Reader
	owner string // of what names no agent; "": the format's own
	emit  func(found) error
	fault func(line int, where string, err error)
}

// read reads a file of a format other than a session log.
func (r *reading) read(ctx context.Context) error {
	switch r.src.format {
	case Own:
		return r.own(ctx)
	case AgentFile:
		return r.agentFile()
	case FieldFile:
		return r.fieldFile()
	case Database:
		return r.database(ctx)
	case ConversationFile:
		return r.conversationFile()
	case CodeLog:
		return r.codeLog(ctx)
	case Chat:
		return r.chat()
	case ChatLines:
		return r.chatLines(ctx)
	case Trajectory:
		return r.trajectory()
	case AgentCheckpoint, IterationCheckpoint, PortableCheckpoint:
		return r.checkpointFile()
	default:
		return fmt.Errorf("%w: nothing reads the format %q", tiers.ErrUnsupported, r.src.format)
	}
}

func (r *reading) agent(otherwise string) string { return cmp.Or(r.owner, otherwise) }

// whole reads a file as one document, within a bound.
func (r *reading) whole() ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r.in, mostPiece+1))
	if err == nil && len(b) > mostPiece {
		err = errLong()
	}
	if err == nil {
		err = misfit.Sound(b)
	}
	return b, err
}

// refuse is the fault of a document, at the line that its error knows.
func (r *reading) refuse(err error) {
	line := 0
	if e, is := errors.AsType[*misfit.Error](err); is {
		line, err = e.Line, e.Err
	}
	r.fault(line, "", err)
}

// eachLine calls fn for the object of each line. Damaged lines are faults.
func (r *reading) eachLine(ctx context.Context, fn func(line int, o object) error) error {
	in := bufio.NewReaderSize(r.in, 1<<16)
	for n := 1; ; n++ {
		text, long, err := readLine(in, mostPiece)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		over := err != nil
		if err := ctx.Err(); err != nil {
			return err
		}
		switch text = bytes.TrimSpace(text); {
		case long:
			r.fault(n, "", errLong())
		case len(text) == 0:
		default:
			o, damage := objectOf(text)
			if damage != nil {
				r.fault(n, "", damage)
				break
			}
			if err := fn(n, o); err != nil {
				return err
			}
		}
		if over {
			return nil //nolint:nilerr // the end of the file is none
		}
	}
}

// objectOf reads one JSON object.
func objectOf(text []byte) (o object, err error) {
	switch err := json.Unmarshal(text, &o); {
	case !utf8.Valid(text):
		return nil, fmt.Errorf("%w: it is no UTF-8", tiers.ErrCorrupt)
	case errors.As(err, new(*json.SyntaxError)):
		return nil, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	case err != nil || o == nil:
		return nil, fmt.Errorf("%w: it is no JSON object", tiers.ErrCorrupt)
	}
	if err := sound(text); err != nil {
		return nil, err
	}
	return o, nil
}

// eachElement calls fn for the objects of an array that a document holds under a
// name, or is. Damaged elements are faults.
func (r *reading) eachElement(name string, fn func(line int, o object) error) error {
	s := newSkimmer(r.in)
	one := func() error {
		if _, err := s.must(); err != nil {
			return err
		}
		line := s.line
		text, whole, err := s.value(mostPiece)
		if err != nil {
			return err
		}
		if !whole {
			r.fault(line, "", errLong())
			return nil
		}
		o, err := objectOf(text)
		if err != nil {
			r.fault(line, "", err)
			return nil
		}
		return fn(line, o)
	}
	var err error
	if name == "" {
		err = s.array(one)
	} else {
		came := false
		err = s.object(func(member string) error {
			if member == name && !came {
				came = true
				return s.array(one)
			}
			_, _, err := s.value(0) // [reading.about] has told of names that are there twice
			return err
		})
	}
	if errors.Is(err, tiers.ErrCorrupt) && !emitted(err) {
		r.fault(s.line, "", err)
		return nil
	}
	return err
}

// about answers what a document says besides the elements that are read one by one.
// What would not come in as it is, is a fault and left out.
func (r *reading) about(elements string) map[string]json.RawMessage {
	own := map[string]json.RawMessage{}
	for _, one := range r.src.head.twice {
		r.fault(one.line, "", errTwice(one.name))
	}
	for name, raw := range r.src.head.fields {
		if name == elements {
			continue
		}
		if err := sound(raw); err != nil {
			r.fault(r.src.head.lines[name], "", fmt.Errorf("%q: %w", name, err))
			continue
		}
		own[name] = raw
	}
	return own
}

// emitError is an error of whoever takes what is found.
type emitError struct{ err error }

func (e emitError) Error() string { return e.err.Error() }
func (e emitError) Unwrap() error { return e.err }

func emitted(err error) bool {
	_, is := errors.AsType[emitError](err)
	return is
}

func (r *reading) give(f found) error {
	if err := r.emit(f); err != nil {
		return emitError{err}
	}
	return nil
}

// A piece of a conversation has at most this much.
const (
	mostMessages = 256
	mostBytes    = 4 << 20
)

// batch gathers the messages of a conversation.
type batch struct {
	r      *reading
	head   *agent.Conversation
	line   int
	titled bool
	lines  []int
	bytes  int
}

func (b *batch) add(line int, ms ...agent.Message) error {
	for _, m := range ms {
		size := len(m.Content)
		for _, v := range m.Metadata {
			size += len(v)
		}
		for _, c := range m.ToolCalls {
			size += len(c.Arguments)
		}
		for _, a := range m.Attachments {
			size += len(a.Content)
		}
		if len(b.lines) >= mostMessages || len(b.lines) > 0 && b.bytes+size > mostBytes {
			if err := b.flush(); err != nil {
				return err
			}
		}
		if b.line == 0 {
			b.line = line
		}
		b.head.Messages, b.lines, b.bytes = append(b.head.Messages, m), append(b.lines, line), b.bytes+size
	}
	return nil
}

// flush hands over what was gathered.
func (b *batch) flush() error {
	if b.head == nil {
		return nil
	}
	head := *b.head
	lines := b.lines
	b.head.Messages, b.lines, b.bytes = nil, nil, 0
	return b.r.give(found{line: b.line, conversation: &head, lines: lines, titled: b.titled})
}

// open reads a source's file. The caller closes it.
func (s *source) open() (*os.File, error) {
	f, _, err := openRegular(s.path)
	if err != nil {
		return nil, err
	}
	if err := toText(f); err != nil {
		_ = f.Close() // it was read only
		return nil, err
	}
	return f, nil
}
