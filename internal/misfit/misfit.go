// Package misfit says of JSON that it is not what is wanted, in the words of whoever wrote
// it: which field, what is there and what is wanted, and where. It names no type of Go.
package misfit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/sagestore/sagestore/internal/halves"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// Error is what is wrong with a text.
type Error struct {
	Line int // from 1; 0: not known
	Err  error
}

// Error names the line.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

// Unwrap answers what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Decode reads a document of JSON exactly, as the codec of package serializer does it. An
// [*Error] of tiers.ErrCorrupt: it is no JSON, no UTF-8, or has half a character. One of
// tiers.ErrType: it is other JSON than is wanted.
func Decode(text []byte, into any) error {
	if err := Sound(text); err != nil {
		return err
	}
	return Of(text, into, serializer.JSON().Decode(text, into))
}

// Sound answers an [*Error] for a document that is no UTF-8, or has half a character,
// with the line.
func Sound(text []byte) error {
	if at := notUTF8(text); at >= 0 {
		return &Error{lineAt(text, at), fmt.Errorf("%w: it is no UTF-8", tiers.ErrCorrupt)}
	}
	if at := halves.Index(text); at >= 0 {
		return &Error{lineAt(text, at), halves.Check(text[at:])}
	}
	return nil
}

// Of puts the error of decoding a text into something into words. Nil stays nil, and so
// does what is about the text rather than about what is wanted.
func Of(text []byte, into any, err error) error {
	if err == nil || errors.Is(err, tiers.ErrCorrupt) {
		return err
	}
	t := reflect.TypeOf(into)
	if t == nil || t.Kind() != reflect.Pointer {
		return err
	}
	f := find(text, t.Elem())
	if f == nil {
		return fmt.Errorf("%w: %s", tiers.ErrType, Words(err))
	}
	return &Error{lineAt(text, f.at), fmt.Errorf("%w: %s", tiers.ErrType, f)}
}

// Located names the line of a document, where the error of reading it knows the place.
func Located(text []byte, err error) error {
	if e, is := errors.AsType[*json.SyntaxError](err); is && !errors.As(err, new(*Error)) {
		return &Error{lineAt(text, max(int(e.Offset)-1, 0)), err}
	}
	return err
}

// InLine is for a text that is one line of a file which the caller names.
func InLine(err error) error {
	if e, is := err.(*Error); is { //nolint:errorlint // its own, and not one within it
		return e.Err
	}
	return err
}

func lineAt(text []byte, at int) int {
	return 1 + bytes.Count(text[:min(at, len(text))], []byte("\n"))
}

// Why answers what is wrong, for the error of decoding a text into something, as a
// sentence about the text.
func Why(text []byte, into any, err error) string {
	if f := (*Error)(nil); errors.As(Of(text, into, err), &f) {
		err = f.Err
	}
	return strings.TrimPrefix(Words(err), tiers.ErrType.Error()+": ")
}
