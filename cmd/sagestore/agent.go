package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) agentCommand() *cobra.Command {
	return group("agent", "Show, repair and delete agents",
		`An agent is what a program keeps with package agent: its state, its fields, its
conversations and its checkpoints.`,
		a.agentListCommand(), a.agentShowCommand(), a.agentRepairCommand(), a.agentDeleteCommand())
}

// withAgents opens the store for fn, unless nobody could share its agents.
func (a *app) withAgents(ctx context.Context, fn func(s *agent.Store) error) error {
	return a.with(ctx, func(m *manager.Manager) error {
		if err := reachAgents(m); err != nil {
			return err
		}
		return fn(agent.New(m))
	})
}

// reachAgents refuses a store nobody could share the agents of.
func reachAgents(m *manager.Manager) error {
	for _, name := range agentCategories() {
		if err := refuseCategory(m, name); err != nil {
			return err
		}
	}
	return nil
}

// agentFlags adds the flags that commands about agents have in common.
func (a *app) agentFlags(c *cobra.Command, json string) *cobra.Command {
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	if json != "" {
		c.Flags().BoolVar(&a.json, "json", false, json)
	}
	return c
}

// page are the flags of a list.
type page struct {
	after string
	limit int
}

func (p *page) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.after, "after", "", "go on after this `id`")
	c.Flags().IntVar(&p.limit, "limit", 0, "at most this `number`")
}

func (p *page) from() (agent.After, error) {
	if p.limit < 0 {
		return agent.After{}, usagef("leave it out to see all", "--limit %d: it takes a number from 0", p.limit)
	}
	return agent.After{ID: p.after, Limit: p.limit}, nil
}

// listed prints what a listing yields: a row, or a line of JSON, for each, and
// reports what can't be read.
func listed[T any](a *app, all func(func(T, error) bool), t table, ends func(T) bool, row func(T) []string) error {
	bad := false
	for v, err := range all {
		switch {
		case err != nil && ends(v):
			return errors.Join(a.printRows(t), err)
		case err != nil:
			a.report(err)
			bad = true
		case a.json:
			if err := a.printLine(v); err != nil {
				return err
			}
		default:
			t.add(row(v)...)
		}
	}
	if err := a.printRows(t); err != nil {
		return err
	}
	if bad {
		return silent(exitFailed)
	}
	return nil
}

func (a *app) printRows(t table) error {
	if a.json || len(t.rows) == 0 {
		return nil
	}
	return a.printTable(t)
}

func (a *app) agentListCommand() *cobra.Command {
	var p page
	c := &cobra.Command{
		Use:   "list",
		Short: "List the agents",
		Long: `List the agents in the order of their ids: name, type, conversations that are not
archived, and the last change. One that can't be read is reported, the rest is
listed, and the command ends with 1.`,
		Example: `  sagestore agent list
  sagestore agent list --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := p.from()
			if err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				t := table{columns: []column{
					{title: "AGENT", shrink: true}, {title: "NAME", shrink: true}, {title: "TYPE", shrink: true}, {title: "ACTIVE", right: true}, {title: "CHANGED (UTC)"},
				}}
				return listed(a, s.List(c.Context(), from), t, func(v *agent.State) bool { return v == nil }, func(v *agent.State) []string {
					return []string{shown(v.ID), oneline.Of(v.Name), oneline.Of(v.Type), fmt.Sprint(len(v.Active)), instant(v.Modified)}
				})
			})
		},
	}
	p.flags(c)
	return a.agentFlags(c, "print one agent a line")
}

func (a *app) agentShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show an agent",
		Long: `Show an agent: what it is, its configuration, what it remembers apart from its
conversations, what programs keep for it in fields, and how many conversations,
checkpoints and sessions it has.`,
		Example: `  sagestore agent show support
  sagestore agent show support --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				st, err := s.Load(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printAgent(c.Context(), s, st)
			})
		},
	}
	return a.agentFlags(c, "print JSON")
}

// properties prints names with what belongs to them, in a column of its own.
type properties struct {
	bytes.Buffer
	width int // of the terminal; 0: none, where each is a line
}

func (p *properties) line(name, text string) {
	if text == "" {
		return
	}
	lines := []string{text}
	if p.width > 0 {
		lines = wrapped(text, max(leastText, p.width-15))
	}
	for _, line := range lines {
		_, _ = fmt.Fprintf(p, "%-14s %s\n", name, line)
		name = ""
	}
}

func (p *properties) values(name string, of map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		text, err := encode(of[key], "")
		if err != nil {
			return err
		}
		p.line(name, oneline.Of(key)+" = "+oneline.Of(string(text)))
		name = ""
	}
	return nil
}

func (p *properties) words(name string, of map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		p.line(name, oneline.Of(key)+" = "+oneline.Of(of[key]))
		name = ""
	}
}

// shownAgent is the JSON shape of agent show.
type shownAgent struct {
	*agent.State
	Fields map[string]json.RawMessage `json:"fields,omitempty"`
	holdings
}

func (a *app) printAgent(ctx context.Context, s *agent.Store, st *agent.State) error {
	fields, unread := s.Fields(st.ID).LoadAll(ctx)
	held, err := holdingsOf(ctx, s, st.ID)
	if a.json {
		return errors.Join(a.printJSON(shownAgent{st, fields, held}), unread, err)
	}
	p := properties{width: a.width()}
	p.line("agent", shown(st.ID))
	p.line("name", oneline.Of(st.Name))
	p.line("type", oneline.Of(st.Type))
	p.line("system prompt", oneline.Of(st.SystemPrompt))
	for i, word := range st.Capabilities {
		name := "capabilities"
		if i > 0 {
			name = ""
		}
		p.line(name, oneline.Of(word))
	}
	if err := errors.Join(p.values("config", st.Config), p.values("custom", st.Custom)); err != nil {
		return err
	}
	p.words("metadata", st.Metadata)
	p.line("version", fmt.Sprint(st.Version))
	p.line("created", instant(st.Created))
	p.line("changed", instant(st.Modified))
	p.fields(fields)
	p.line("conversations", fmt.Sprintf("%d, %d of them active", held.Conversations, len(st.Active)))
	for i, id := range st.Repaired {
		name := "repaired"
		if i > 0 {
			name = ""
		}
		p.line(name, "conversation "+shown(id)+" was active, and nothing of it is stored")
	}
	p.line("checkpoints", fmt.Sprint(held.Checkpoints))
	p.line("sessions", fmt.Sprint(held.Sessions))
	_, printing := a.out.Write(p.Bytes())
	return errors.Join(printing, unread, err)
}

// fields prints what programs keep for an agent apart from its state.
func (p *properties) fields(all map[string]json.RawMessage) {
	title := "fields"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p.line(title, oneline.Of(name)+" = "+oneline.Of(string(all[name])))
		title = ""
	}
}

// holdings are how many conversations, checkpoints and sessions an agent has, those that
// can't be read as well.
type holdings struct {
	Conversations int `json:"conversations"`
	Checkpoints   int `json:"checkpoints"`
	Sessions      int `json:"sessions"`
}

func holdingsOf(ctx context.Context, s *agent.Store, id string) (h holdings, err error) {
	for c, err := range s.Conversations(ctx, id, agent.After{}) {
		if err != nil && c == nil {
			return h, err
		}
		h.Conversations++
	}
	for c, err := range s.Checkpoints(ctx, id, agent.After{}) {
		if err != nil && c.Number == 0 {
			return h, err
		}
		h.Checkpoints++
	}
	sessions, err := s.Sessions(ctx, id)
	h.Sessions = len(sessions)
	return h, err
}

// destruction are the flags of a command that destroys something.
type destruction struct{ dry, yes bool }

func (d *destruction) flags(c *cobra.Command) {
	c.Flags().BoolVar(&d.dry, "dry-run", false, "only say what would be done")
	c.Flags().BoolVar(&d.yes, "yes", false, "do not ask")
}

// facts are what a plan says in words, for programs.
type facts map[string]any

// may says what would be done, with its facts as JSON if that was asked for, or asks
// whether to; go tells to go on.
func (d *destruction) may(ctx context.Context, a *app, what string, of facts) (proceed bool, err error) {
	if d.dry {
		return false, a.would(what, of)
	}
	return true, a.confirm(ctx, what, d.yes)
}

// none says of a dry run that there is nothing to delete; told tells that it was one.
func (d *destruction) none(a *app, what, id string) (told bool, err error) {
	if !d.dry {
		return false, nil
	}
	if a.json {
		return true, a.would("delete nothing", facts{what + "_id": id, "existed": false})
	}
	return true, a.would(fmt.Sprintf("delete nothing: there is no %s %q", what, id), nil)
}

// would says what a dry run would do.
func (a *app) would(what string, of facts) error {
	if !a.json {
		_, err := fmt.Fprintln(a.out, "would "+what)
		return err
	}
	of["dry_run"], of["would"] = true, what
	return a.printJSON(of)
}

func (a *app) agentDeleteCommand() *cobra.Command {
	var d destruction
	c := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete an agent with all that belongs to it",
		Long: `Delete an agent with its fields, its conversations, their messages and its
checkpoints, and the sessions that belong to it with their events. It asks before,
unless --yes is given. An agent that is not there is no error.`,
		Example: `  sagestore agent delete support --dry-run
  sagestore agent delete support --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				held, err := holdingsOf(c.Context(), s, args[0])
				if err != nil {
					return err
				}
				fields, damaged := s.Fields(args[0]).LoadAll(c.Context()) // what can't be read is deleted as well
				if _, err := s.Load(c.Context(), args[0]); errors.Is(err, tiers.ErrNotFound) && held == (holdings{}) && len(fields) == 0 && damaged == nil {
					if told, err := d.none(a, "agent", args[0]); told {
						return err
					}
				}
				of := facts{"agent_id": args[0], "fields": len(fields), "conversations": held.Conversations, "checkpoints": held.Checkpoints, "sessions": held.Sessions}
				if proceed, err := d.may(c.Context(), a, deletionOf(args[0], len(fields), held), of); err != nil || !proceed {
					return err
				}
				existed, err := s.Delete(c.Context(), args[0])
				return a.deleted(existed, err, "agent", args[0])
			})
		},
	}
	d.flags(c)
	return a.agentFlags(c, "print JSON")
}

// deletionOf says what is deleted with an agent.
func deletionOf(id string, fields int, held holdings) string {
	words := []string{many(held.Conversations, "conversation"), many(held.Checkpoints, "checkpoint")}
	if fields > 0 {
		words = append([]string{many(fields, "field")}, words...)
	}
	if held.Sessions > 0 {
		words = append(words, many(held.Sessions, "session"))
	}
	last := len(words) - 1
	return fmt.Sprintf("delete agent %q with %s and %s", id, strings.Join(words[:last], ", "), words[last])
}

// deleted says when there was nothing to delete, and as JSON also when there was.
func (a *app) deleted(existed bool, err error, what, id string) error {
	if err == nil && a.json {
		return unprinted(a.printJSON(map[string]any{what + "_id": id, "existed": existed}))
	}
	if err == nil && !existed {
		_, _ = fmt.Fprintf(a.err, "sagestore: there was no %s %q\n", what, id)
	}
	return err
}
