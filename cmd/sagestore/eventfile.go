package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// shownSession is the JSON shape of session show.
type shownSession struct {
	session.State
	Events uint64 `json:"events"`
}

func (a *app) sessionShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show what a session has at hand",
		Long: `Show a session that a program began with package session: user, agent, start and end,
context, preferences, the history of its queries, and which parts have expired. A
part that lives in the memory of the program counts as expired here.`,
		Example: `  sagestore session show s-1
  sagestore session show s-1 --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withEvents(c.Context(), func(s *session.Store) error {
				st, err := s.Load(c.Context(), args[0])
				if err != nil && st.SessionID == "" {
					return err
				}
				info, about := s.Info(c.Context(), args[0])
				if fault := errors.Join(err, about); fault != nil {
					a.report(fault)
					err = silent(exitFailed)
				}
				if a.json {
					return errors.Join(a.printJSON(shownSession{st, info.Events}), err)
				}
				return errors.Join(a.printState(st, info), err)
			})
		},
	}
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) printState(st session.State, info session.Info) error {
	var b bytes.Buffer
	line := func(name, text string) {
		if text != "" {
			_, _ = fmt.Fprintf(&b, "%-12s %s\n", name, text)
		}
	}
	values := func(name string, of map[string]any) error {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			text, err := encode(of[key], "")
			if err != nil {
				return err
			}
			line(name, oneline.Of(key)+" = "+oneline.Of(string(text)))
			name = ""
		}
		return nil
	}
	line("session", shown(st.SessionID))
	line("user", shown(st.UserID))
	line("agent", shown(st.AgentID))
	line("started", instant(st.StartedAt))
	line("ended", instant(st.EndedAt))
	line("events", fmt.Sprint(info.Events))
	if err := errors.Join(values("context", st.Context), values("preferences", st.Preferences)); err != nil {
		return err
	}
	name := "history"
	for _, q := range st.History {
		line(name, oneline.Of(q))
		name = ""
	}
	for _, part := range st.Expired {
		line("expired", string(part))
	}
	_, err := a.out.Write(b.Bytes())
	return err
}

func (a *app) sessionExportCommand() *cobra.Command {
	var appendTo bool
	c := &cobra.Command{
		Use:   "export ID [FILE]",
		Short: "Write the events of a session as JSON Lines",
		Long: `Write the events of a session as JSON Lines, a JSON-RPC notification a line, to
standard output or to FILE, which must not be there. With --append only events that
FILE does not have are added to it; a last line that was cut off is left as it is,
and the next event stands on a line of its own.`,
		Example: `  sagestore session export s-1 >s-1.jsonl
  sagestore session export s-1 s-1.jsonl --append`,
		Args: count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if appendTo && len(args) < 2 {
				return usagef("name the file", "--append is for a FILE")
			}
			return a.withEvents(c.Context(), func(s *session.Store) error {
				switch {
				case len(args) < 2:
					return s.Export(c.Context(), args[0], a.out)
				case appendTo:
					return appendEvents(c.Context(), s, args[0], args[1])
				}
				return exportTo(c.Context(), s, args[0], args[1])
			})
		},
	}
	c.Flags().BoolVar(&appendTo, "append", false, "add to FILE the events that it does not have")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	return c
}

// exportTo writes a new file.
func exportTo(ctx context.Context, s *session.Store, id, path string) (err error) {
	if _, err := s.Info(ctx, id); err != nil {
		return err // before there is a file
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names the file
	if err != nil {
		return usagef("name another file, or add to this one with --append", "%w", err)
	}
	defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
	return s.Export(ctx, id, f)
}

// appendEvents adds to a file what it does not have.
func appendEvents(ctx context.Context, s *session.Store, id, path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
	there := map[string]bool{}
	if st, err := f.Stat(); err == nil && !st.Mode().IsRegular() {
		return usagef("leave --append out", "%s: it is no regular file", path)
	}
	for line, err := range session.Lines(f) {
		if _, damaged := errors.AsType[*session.LineError](err); err != nil && !damaged {
			return err
		}
		if err == nil && line.Event.Session == id {
			there[line.Event.ID] = true
		}
	}
	var errs []error
	for e, err := range s.Events(ctx, id, 0) {
		switch {
		case err != nil:
			errs = append(errs, err)
		case !there[e.ID]:
			if err := session.AppendLines(f, e); err != nil {
				return err
			}
		}
	}
	return errors.Join(errs...)
}

func (a *app) sessionImportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Read the events of sessions from JSON Lines",
		Long: `Read JSON Lines of session events, as session export and other programs write them,
from FILE or standard input. Events that are there already are passed over, so that
an import can be done again. A session that is not there is made. An import ends no
session that goes on. Damaged lines are reported, the rest is imported, and the
command ends with 1.`,
		Example: `  sagestore session import s-1.jsonl`,
		Args:    count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			in, name, err := a.open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = in.Close() }() // it was read only
			return a.withEvents(c.Context(), func(s *session.Store) error {
				added, skipped, err := s.Import(c.Context(), in)
				if a.json {
					printing := a.printJSON(map[string]int{"added": added, "skipped": skipped})
					if err == nil {
						printing = unprinted(printing)
					}
					err = errors.Join(printing, err)
				} else {
					_, _ = fmt.Fprintf(a.err, "sagestore: added %s, %d were there already\n", many(added, "event"), skipped)
				}
				return inFile(name, err)
			})
		},
	}
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// open answers a file, or standard input for "-", and how errors call it.
func (a *app) open(path string) (in io.ReadCloser, name string, err error) {
	if path == "-" {
		return io.NopCloser(a.in), "standard input", nil
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, "", usagef("a - reads standard input", "%s: it is no regular file", path) // a pipe would wait for somebody who writes
	}
	f, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, "", usagef("", "%w", err)
	}
	return f, path, nil
}

// inFile makes of damaged lines those of a file.
func inFile(name string, err error) error {
	lines, rest := &linesError{file: name}, []error{}
	var sort func(err error)
	sort = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				sort(one)
			}
			return
		}
		if line, ok := errors.AsType[*session.LineError](err); ok {
			lines.add(line.Line, line.Err)
			return
		}
		rest = append(rest, err)
	}
	if err != nil {
		sort(err)
	}
	return errors.Join(append(rest, lines.err())...)
}

// endSession ends a session, with its log where it has one.
func endSession(ctx context.Context, m *manager.Manager, id string) error {
	err := session.New(m).End(ctx, id)
	if errors.Is(err, tiers.ErrNotFound) || err == nil {
		return m.EndSession(ctx, id) // also one that was begun without a log
	}
	return err
}
