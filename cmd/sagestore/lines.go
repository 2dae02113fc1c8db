package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// mostLines is how many wrong lines of a file are told.
const mostLines = 100

// linesError are what is wrong with the lines of a file.
type linesError struct {
	file string
	all  []lineError
	more int // that are not in all
	last string
}

type lineError struct {
	line int
	err  error
}

// add notes what is wrong with a line, if anything is.
func (l *linesError) add(line int, err error) {
	switch {
	case err == nil:
	case len(l.all) < mostLines:
		l.all = append(l.all, lineError{line, err})
	default:
		l.more++
	}
}

// err answers the error of the file, nil when nothing is wrong.
func (l *linesError) err() error {
	if len(l.all) == 0 {
		return nil
	}
	return l
}

// Error names the first line only.
func (l *linesError) Error() string {
	return fmt.Sprintf("%s:%d: %v", l.file, l.all[0].line, l.all[0].err)
}

// Unwrap answers the error of the first line, which the exit code is about.
func (l *linesError) Unwrap() error { return l.all[0].err }

// explain answers one fault for each line, and what became of the whole.
func (l *linesError) explain() []fault {
	var all []fault
	for _, one := range l.all {
		for _, f := range explain(one.err) {
			f.text = fmt.Sprintf("%s:%d: %s", l.file, one.line, f.text)
			if errors.Is(one.err, tiers.ErrExists) {
				f.hint = strings.Replace(f.hint, "--if-absent", `"if_absent"`, 1)
			}
			all = append(all, f)
		}
	}
	if l.more > 0 {
		all = append(all, fault{text: fmt.Sprintf("%s: %d more lines are wrong", l.file, l.more)})
	}
	if l.last != "" {
		all = append(all, fault{text: l.last})
	}
	return all
}
