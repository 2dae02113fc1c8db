package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// Options say where an import goes and how. Agents and Sessions are needed.
type Options struct {
	Agents   *agent.Store // made for the import: see [Import]
	Sessions *session.Store
	Clock    tiers.Clock // of agents that are made; nil: the system's

	Owner   string // agent of conversations whose format names none; "": named after the format
	DryRun  bool   // only say what there is, and what of it is new
	Replace bool   // an agent or a field that is there and differs becomes what the file says

	NoFields error // why fields can't be brought in; nil: they can

	Fault    func(Fault)                          // what was left out; nil: only counted
	Remark   func(text string)                    // what somebody might want to know
	Progress func(file string, done, total int64) // in bytes
}

// Count is of one kind of thing.
type Count struct {
	Added int `json:"added"`
	There int `json:"there"` // already, so that nothing was done
}

// File is what became of one.
type File struct {
	Path   string `json:"path"`
	Format Format `json:"format"`
	Faults int    `json:"faults"`
}

// Summary is what an import came to. With DryRun what would be added is counted as
// added.
type Summary struct {
	DryRun        bool     `json:"dry_run,omitempty"`
	Agents        Count    `json:"agents"`
	Conversations Count    `json:"conversations"`
	Messages      Count    `json:"messages"`
	Checkpoints   Count    `json:"checkpoints"`
	Fields        Count    `json:"fields"`
	Sessions      Count    `json:"sessions"`
	Events        Count    `json:"events"`
	Faults        int      `json:"faults"`
	Files         []File   `json:"files"`
	Passed        []string `json:"passed_over,omitempty"` // files of directories that are nothing known
}

// importer is one run.
type importer struct {
	o      Options
	agents *agent.Store
	sum    Summary

	made     map[string]bool            // agents that this run has made
	before   map[string]bool            // agents of which there is a checkpoint from before
	there    map[string]bool            // agents that were there
	current  *standing                  // the conversation that messages come in for
	seen     map[string]bool            // conversations that were counted
	kept     map[string]*standing       // what they would hold, in a dry run
	planned  map[string]json.RawMessage // fields that a dry run has seen, by KEY/NAME
	sessions map[string]*seenSession
}

// Import brings in what it finds below the paths. Faults do not stop it: they are
// counted, told, and the rest comes in. An error ends it; what was brought in until
// then stays, and the import can be done again. An agent that is there already gets a
// checkpoint as [agent.Store.BeforeOperation] makes it, before the first change.
//
// While it runs, no checkpoint is removed for being one too many; so Options.Agents
// should not be used for other work.
func Import(ctx context.Context, paths []string, o Options) (Summary, error) {
	if o.Clock == nil {
		o.Clock = tiers.SystemClock()
	}
	im := &importer{
		o: o, agents: o.Agents.ForImport(),
		made: map[string]bool{}, before: map[string]bool{}, there: map[string]bool{}, sessions: map[string]*seenSession{},
		seen: map[string]bool{}, kept: map[string]*standing{}, planned: map[string]json.RawMessage{},
	}
	im.sum.DryRun, im.sum.Files = o.DryRun, []File{}
	all, passed := sources(paths, im.fault)
	im.sum.Passed = passed
	for _, src := range all {
		before := im.sum.Faults
		err := im.file(ctx, src)
		im.sum.Files = append(im.sum.Files, File{src.path, src.format, im.sum.Faults - before})
		if err != nil {
			return im.sum, fmt.Errorf("%s: %w", src.path, err)
		}
	}
	return im.sum, nil
}

func (im *importer) fault(f Fault) {
	im.sum.Faults++
	if im.o.Fault != nil {
		im.o.Fault(f)
	}
}

func (im *importer) remark(format string, args ...any) {
	if im.o.Remark != nil {
		im.o.Remark(fmt.Sprintf(format, args...))
	}
}

// file brings in what one file holds.
func (im *importer) file(ctx context.Context, src *source) error {
	f, err := src.open()
	if err != nil {
		im.fault(Fault{File: src.path, Err: err})
		return nil
	}
	defer func() { _ = f.Close() }() // it was read only
	in := &counted{r: f, tell: func(done int64) {
		if im.o.Progress != nil {
			im.o.Progress(src.path, done, src.size)
		}
	}}
	fault := func(line int, where string, err error) { im.fault(Fault{src.path, line, where, err}) }
	if src.format == SessionLog {
		return im.sessionLog(ctx, in, fault)
	}
	im.current = nil
	r := &reading{src: src, in: in, owner: im.o.Owner, fault: fault}
	r.emit = func(f found) error {
		err := im.take(ctx, f, fault)
		if err != nil && !fatal(ctx, err) {
			fault(f.line, f.where, err)
			return nil
		}
		return err
	}
	if err := r.read(ctx); err != nil {
		if emitted(err) || ctx.Err() != nil {
			return err
		}
		fault(0, "", err)
	}
	if src.format == Database {
		return im.eventTable(ctx, src, fault)
	}
	return nil
}

// fatal tells of errors that more of the import would meet as well.
func fatal(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	for _, e := range []error{
		tiers.ErrUnavailable, tiers.ErrFull, tiers.ErrClosed, tiers.ErrUnsupported, tiers.ErrReadOnly, tiers.ErrCommitUnknown,
		tiers.ErrCategory, tiers.ErrCodec, tiers.ErrTxDone, tiers.ErrTxAborted,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (im *importer) take(ctx context.Context, f found, fault func(line int, where string, err error)) error {
	switch {
	case f.agent != nil:
		return im.takeAgent(ctx, f.agent)
	case f.conversation != nil:
		return im.takeConversation(ctx, f, fault)
	case f.checkpoint != nil:
		return im.takeCheckpoint(ctx, f.checkpoint)
	case f.fields != nil && im.o.NoFields != nil:
		return im.o.NoFields
	case f.fields != nil:
		return im.takeFields(ctx, f.fields, fault)
	case f.session != nil:
		return im.takeSession(ctx, f.session)
	case f.events != nil:
		return im.events(ctx, &f.events.text, func(line int, err error) { fault(f.events.lines[line-1], "", err) })
	}
	return nil
}

// counted tells how much of a file was read.
type counted struct {
	r    io.Reader
	n    int64
	tell func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.tell(c.n)
	return n, err
}
