package config

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Error is one fault of a configuration.
type Error struct {
	File    string // "" for a Config made in Go
	Line    int    // from 1; 0 when the fault is that something is missing, or for Go
	Column  int
	Path    string // of the key: "categories.app.drafts.ttl"
	Problem string // what is wrong, with what would be right
	Err     error  // a sentinel of package tiers where one fits, else nil
}

// Error puts the whole into one line, in which nothing of the file talks to a terminal.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" || e.Line > 0 {
		b.WriteString(position(e.File, e.Line) + ": ")
	} else if e.Path == "" {
		b.WriteString("config: ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, b.String())
}

// Unwrap answers the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Errors are all faults of a configuration, in the order of the file.
type Errors []*Error

// Error puts each fault into a line of its own.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap answers the single faults, for [errors.Is] and [errors.As].
func (es Errors) Unwrap() []error {
	all := make([]error, len(es))
	for i, e := range es {
		all[i] = e
	}
	return all
}

// faults collects what is wrong.
type faults struct {
	origin *origin
	found  Errors
	broken []string // paths whose value could not be read: they and what lies below are not checked again
}

// add reports a fault of a key; its line is where the key was written, or the
// nearest block around it.
func (f *faults) add(path []string, problem string) { f.wrap(path, problem, nil) }

// wrap is add for a fault that is one of the sentinels.
func (f *faults) wrap(path []string, problem string, sentinel error) {
	shown := showPath(path)
	for _, broken := range f.broken {
		if broken == shown || strings.HasPrefix(shown, broken+".") {
			return
		}
	}
	e := &Error{Path: shown, Problem: problem, Err: sentinel}
	if f.origin != nil {
		e.File = f.origin.file
		e.Line, e.Column = f.origin.near(path)
	}
	f.found = append(f.found, e)
}

// err answers everything that was found, sorted by line; nil when nothing was.
func (f *faults) err() error {
	if len(f.found) == 0 {
		return nil
	}
	slices.SortStableFunc(f.found, func(a, b *Error) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line) // those without a line come last
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(f.found, func(a, b *Error) bool {
		return a.Line == b.Line && a.Path == b.Path && a.Problem == b.Problem
	})
}
