package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/transfer"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) importCommand() *cobra.Command {
	var o transfer.Options
	c := &cobra.Command{
		Use:   "import PATH...",
		Short: "Bring in agents, conversations, checkpoints and sessions of other programs",
		Long: `Bring in what other programs have stored, and what export has written. What a file
is shows in its content; of a directory all files below it are taken that are
something known. Damaged lines are reported with file and line, the rest comes in,
and the command ends with 1. What is there already is passed over, so that an import
can be done again. An agent that is there gets a checkpoint before its first change.`,
		Example: `  sagestore import s-1.jsonl chat.json
  sagestore import chat.json --agent support --dry-run`,
		Args: count(1, 1<<20),
		RunE: func(c *cobra.Command, args []string) error {
			if err := notEmpty(c, "agent"); err != nil {
				return err
			}
			for _, path := range args {
				if path == "-" {
					return usagef("write it to a file first, since what it is shows in all of it; ./- is a file of that name", "import takes files and directories, and not standard input")
				}
				if _, err := os.Stat(path); err != nil {
					return usagef("", "%w", err)
				}
			}
			return a.with(c.Context(), func(m *manager.Manager) error {
				for _, name := range append(agentCategories(), "session.events", "session.state") {
					if err := refuseCategory(m, name); err != nil {
						return err
					}
				}
				return a.importPaths(c.Context(), m, args, o)
			})
		},
	}
	c.Flags().StringVar(&o.Owner, "agent", "", "`id` of the agent that conversations get whose files name none")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what would come in")
	c.Flags().BoolVar(&o.Replace, "replace", false, "agents and fields that are there and differ become what the files say")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// fieldsCategory is the one that fields of agents are in.
const fieldsCategory = "agent.fields"

// agentCategories answers those that agents, conversations and checkpoints are in.
func agentCategories() []string {
	return []string{"agent.state", "agent.conversations", "agent.checkpoints"}
}

func (a *app) importPaths(ctx context.Context, m *manager.Manager, paths []string, o transfer.Options) error {
	plan := manager.ConfigOf(m).Checkpoints
	o.Agents, o.Sessions, o.Clock = agent.New(m), session.New(m), manager.ClockOf(m)
	if refuseCategory(m, fieldsCategory) != nil { // which is a fault of the file that has some
		o.NoFields = tiers.Hint(fmt.Errorf("the category %s lives in the memory of one process, where fields would be lost", fieldsCategory),
			"change its tier in the configuration")
	}
	plan.Max = 1 << 30 // what comes in is not to drive out what is there
	if err := o.Agents.SetCheckpoints(plan); err != nil {
		return err
	}
	line := a.fileProgress()
	told := 0
	o.Progress = line.tell
	o.Fault = func(f transfer.Fault) {
		line.end()
		if told++; told <= mostLines {
			a.report(&f)
		}
	}
	o.Remark = func(text string) {
		line.end()
		_, _ = fmt.Fprintf(a.err, "sagestore: %s\n", text)
	}
	sum, err := transfer.Import(ctx, paths, o)
	line.end()
	if told > mostLines {
		_, _ = fmt.Fprintf(a.err, "sagestore: %d more faults\n", told-mostLines)
	}
	if printing := a.printImport(sum); err == nil {
		err = printing
		if !sum.DryRun && sum.Faults == 0 {
			err = unprinted(err)
		}
	}
	if err == nil && sum.Faults > 0 {
		err = silent(exitFailed)
	}
	return err
}

// printImport prints what an import came to: a line for each kind of thing.
func (a *app) printImport(sum transfer.Summary) error {
	if a.json {
		return a.printJSON(sum)
	}
	t := table{columns: []column{{title: "", shrink: true}, {title: "ADDED", right: true}, {title: "THERE ALREADY", right: true}}}
	if sum.DryRun {
		t.columns[1].title = "WOULD BE ADDED"
	}
	for _, row := range []struct {
		name  string
		count transfer.Count
	}{
		{"agents", sum.Agents},
		{"conversations", sum.Conversations},
		{"messages", sum.Messages},
		{"checkpoints", sum.Checkpoints},
		{"fields", sum.Fields},
		{"sessions", sum.Sessions},
		{"events", sum.Events},
	} {
		if row.count != (transfer.Count{}) {
			t.add(row.name, fmt.Sprint(row.count.Added), fmt.Sprint(row.count.There))
		}
	}
	if len(t.rows) == 0 {
		_, err := fmt.Fprintln(a.err, "sagestore: nothing was found")
		return err
	}
	if err := a.printTable(t); err != nil {
		return err
	}
	if n := len(sum.Passed); n > 0 {
		_, _ = fmt.Fprintf(a.err, "sagestore: %d other files were passed over\n", n)
	}
	return nil
}

// fileProgress shows how far the reading of files is, in one line that is written
// over. It shows nothing where there is no terminal.
type fileProgress struct {
	out   io.Writer // nil: nowhere
	clock tiers.Clock

	mu    sync.Mutex
	last  int64
	shown bool
}

func (a *app) fileProgress() *fileProgress {
	p := &fileProgress{clock: tiers.SystemClock()}
	if onTerminal(a.err) {
		p.out = a.err
	}
	return p
}

func (p *fileProgress) tell(file string, done, total int64) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now().UnixNano()
	if now-p.last < int64(progressEvery) {
		return
	}
	p.last, p.shown = now, true
	text := fmt.Sprintf("%s: %s", shown(file), sized(done))
	if total > 0 {
		text += fmt.Sprintf(" of %s, %d%%", sized(total), 100*min(done, total)/total)
	}
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", text)
}

// end removes the line.
func (p *fileProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
