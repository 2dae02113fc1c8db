package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/tiers"
)

// fault is one line for the user, and one with what to do about it.
type fault struct{ text, hint string }

// report prints each fault of an error as one line and, where there is one, a
// line with what to do next.
func (a *app) report(err error) {
	for _, f := range explain(err) {
		_, _ = fmt.Fprintf(a.err, "sagestore: %s\n", inOneLine(f.text))
		if f.hint != "" {
			_, _ = fmt.Fprintf(a.err, "hint: %s\n", f.hint)
		}
	}
}

// explain answers what an error has to say to the user of a command line.
func explain(err error) []fault {
	if _, quiet := errors.AsType[silent](err); quiet || err == nil {
		return nil
	}
	if faults, ok := errors.AsType[config.Errors](err); ok {
		all := make([]fault, len(faults))
		for i, f := range faults {
			all[i].text = f.Error()
		}
		return all
	}
	if lines, ok := errors.AsType[*linesError](err); ok {
		return lines.explain()
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		return []fault{{misfit.Words(usage), usage.hint}}
	}
	var all []fault
	for _, err := range parts(err) {
		all = append(all, faultOf(err))
	}
	return all
}

// inOneLine joins the lines of what others say, such as the drivers of databases.
func inOneLine(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch before := b.String(); {
		case line == "" || before == "":
		case strings.HasSuffix(before, ":"):
			b.WriteByte(' ')
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// without takes a hint out of a text that repeats it.
func without(text, hint string) string { return strings.Replace(text, " ("+hint+")", "", 1) }

func faultOf(err error) fault {
	if f, ok := errors.AsType[*config.Error](err); ok {
		return fault{text: strings.TrimPrefix(f.Error(), "config: ")}
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, tiers.ErrCommitUnknown) {
		return fault{text: "interrupted"}
	}
	f := fault{text: misfit.Words(err)}
	for e := range typed(err) {
		if e.Hint != "" {
			f.hint = e.Hint // the innermost knows best
			f.text = without(f.text, e.Hint)
		}
	}
	switch {
	case errors.Is(err, tiers.ErrCommitUnknown):
		if id := transactionOf(err); id != "" {
			f.hint = "ask later: sagestore journal outcome " + id
		}
	case strings.Contains(f.hint, "WithRetry"):
		f.hint = "somebody else has changed it meanwhile, and nothing was stored; run the command again"
	case errors.Is(err, tiers.ErrExists) && f.hint == "" && didSave(err):
		f.hint = "a save without --if-absent replaces it"
	case errors.Is(err, tiers.ErrConflict) && strings.Contains(f.hint, "Modify"):
		f.hint = "load --entry shows the version that is stored"
	case errors.Is(err, tiers.ErrSessionEnded):
		f.hint = "use another session; a program may reopen this one"
	case errors.Is(err, tiers.ErrNotFound) && f.hint == "":
		f.hint = whereListed(f.text)
	default:
		f.hint = inFlags(f.hint)
	}
	return f
}

// whereListed names the command that lists what an id was not found among.
func whereListed(text string) string {
	switch {
	case strings.Contains(text, "no such agent"):
		return "sagestore agent list shows those that are there"
	case strings.Contains(text, "no such conversation"):
		return "sagestore conversation list shows those that are there"
	case strings.Contains(text, "no such checkpoint"):
		return "sagestore checkpoint list AGENT shows those that are there"
	}
	return ""
}

// inFlags says to the user of a command line what a hint says to a programmer.
func inFlags(hint string) string {
	switch {
	case strings.HasPrefix(hint, "OrOlder "):
		return "--or-older" + strings.TrimPrefix(hint, "OrOlder")
	case strings.Contains(hint, "Repair takes"):
		return "no checkpoint was made; sagestore agent repair takes what can be read for right, sagestore checkpoint restore goes back to a sound checkpoint"
	case strings.Contains(hint, "Start makes one"):
		return "sagestore session list shows those that are there"
	case strings.Contains(hint, "Manager.Load into"):
		return "sagestore load shows what is stored"
	case strings.Contains(hint, "told to recreate it"):
		return "--recreate makes the agent again"
	}
	return hint
}

// didSave tells whether it was a save that failed.
func didSave(err error) bool {
	for e := range typed(err) {
		if e.Op == "save" {
			return true
		}
	}
	return false
}

// transactionOf answers the transaction that an error is about, if there is one.
func transactionOf(err error) string {
	for e := range typed(err) {
		if e.Tx != "" {
			return e.Tx
		}
	}
	return ""
}

// parts splits joined errors. What was around them is kept where they do not
// say themselves what they are about.
func parts(err error) []error {
	switch e := err.(type) { //nolint:errorlint // the outermost decides
	case *tiers.Error:
		inner := parts(e.Err)
		if len(inner) == 1 && inner[0] == e.Err { //nolint:errorlint // identity: nothing was split
			return []error{err}
		}
		for i := range inner {
			if !named(inner[i]) {
				about := *e
				about.Err = inner[i]
				inner[i] = &about
			}
		}
		return inner
	case interface{ Unwrap() []error }:
		all, text := []error{}, []string{}
		for _, one := range e.Unwrap() {
			all, text = append(all, parts(one)...), append(text, one.Error())
		}
		if strings.Join(text, "\n") == err.Error() { // joined, rather than part of a sentence
			return all
		}
	}
	return []error{err}
}

// named tells whether an error says which operation failed.
func named(err error) bool {
	for e := range typed(err) {
		if e.Op != "" {
			return true
		}
	}
	return false
}

// typed yields the typed errors of a chain, from the outside in.
func typed(err error) func(yield func(*tiers.Error) bool) {
	return func(yield func(*tiers.Error) bool) { walk(err, yield) }
}

func walk(err error, yield func(*tiers.Error) bool) bool {
	switch e := err.(type) { //nolint:errorlint // the chain is walked here
	case nil:
		return true
	case *tiers.Error:
		return yield(e) && walk(e.Err, yield)
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !walk(one, yield) {
				return false
			}
		}
	}
	return true
}
