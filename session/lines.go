package session

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// Export writes the log of a session as JSON Lines, an event a line, see
// [Event.MarshalJSON]. Events that can't be read are left out, and are part of the
// error; the rest is written. tiers.ErrNotFound: there is no such session.
func (s *Store) Export(ctx context.Context, id string, w io.Writer) error {
	var errs []error
	for e, err := range s.Events(ctx, id, 0) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		line, err := lineOf(e)
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return fail("export", id, err)
		}
	}
	return fail("export", id, errors.Join(errs...))
}

func lineOf(e Event) ([]byte, error) {
	line, err := e.MarshalJSON()
	return append(line, '\n'), err
}

// AppendLines writes events behind the lines of a file, or of anything else that
// can be read and written in place. When its last line was cut off, by a crash, it
// is ended first, so that the events stand on lines of their own.
func AppendLines(f io.ReadWriteSeeker, events ...Event) error {
	var text []byte
	for _, e := range events {
		line, err := lineOf(e)
		if err != nil {
			return fmt.Errorf("write event %q as a line: %w", e.ID, err)
		}
		text = append(text, line...)
	}
	if len(text) == 0 {
		return nil
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the end of the lines: %w", err)
	}
	if end > 0 {
		var last [1]byte
		if _, err := f.Seek(-1, io.SeekEnd); err != nil {
			return fmt.Errorf("find the end of the lines: %w", err)
		}
		if _, err := io.ReadFull(f, last[:]); err != nil {
			return fmt.Errorf("read the end of the lines: %w", err)
		}
		if last[0] != '\n' {
			text = append([]byte{'\n'}, text...)
		}
	}
	_, err = f.Write(text)
	return err
}

// LineError is a line that holds no event.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap answers what is wrong with it.
func (e *LineError) Unwrap() error { return e.Err }

// mostLine bounds a line in bytes.
const mostLine = mostEvent + 1<<20

// Line is an event with the number of its line, from 1.
type Line struct {
	Number int
	Event  Event
}

// Lines reads JSON Lines and yields their events. A line that is damaged, such as a last one that was cut off, is a *LineError, and
// the lines after it are read; any other error ends it. Empty lines are passed
// over. An event without an ID gets one that is made from its text, and from how
// many lines with that text came before, so that it is the same one when the lines
// are read again.
func Lines(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in, codec, twins := bufio.NewReaderSize(r, 1<<16), serializer.JSON(), map[string]int{}
		for n := 1; ; n++ {
			text, long, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Line{Number: n}, fmt.Errorf("read line %d: %w", n, err))
				return
			}
			over := err != nil
			var e Event
			switch text = bytes.TrimSpace(text); {
			case long:
				err = &LineError{n, fmt.Errorf("%w: it has more than %d bytes", tiers.ErrTooLarge, mostLine)}
			case len(text) == 0:
				if over {
					return
				}
				continue
			default:
				if e, err = parseLine(codec, text, twins); err != nil {
					err = &LineError{n, err}
				}
			}
			if !yield(Line{n, e}, err) || over {
				return
			}
		}
	}
}

// readLine reads up to the next line feed; of a line that is too long it keeps
// nothing.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > mostLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}
