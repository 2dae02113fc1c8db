package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/internal/segment"
)

func (a *app) searchCommand() *cobra.Command {
	q := agent.Query{Limit: new(int)}
	c := &cobra.Command{
		Use:   "search QUERY",
		Short: "Search the messages of conversations",
		Long: `Search the messages of conversations. The mode contains finds the text as it is, upper
and lower case apart, and answers each conversation with its newest such message; the
mode words finds messages that have all words, the best first.`,
		Example: `  sagestore search 'order 4711'
  sagestore search refund order --agent support --mode words --json`,
		Args: count(1, 1<<10),
		RunE: func(c *cobra.Command, args []string) error {
			q.Text = strings.Join(args, " ")
			modes := agent.Modes()
			switch {
			case strings.TrimSpace(q.Text) == "":
				return usagef("say what to look for", "the QUERY is empty")
			case *q.Limit < 0:
				return usagef("leave it out for 20", "--limit %d: it takes a number from 0", *q.Limit)
			case !slices.Contains(modes, q.Mode):
				return usagef("it takes contains or words", "--mode %q: there is no such mode%s", q.Mode, nearMode(string(q.Mode), modes))
			}
			if err := notEmpty(c, "agent"); err != nil {
				return err
			}
			if q.Mode == agent.ByWords && len(segment.Query(q.Text)) == 0 {
				return usagef("--mode contains finds characters of any kind", "the QUERY %q has no words, only signs between them", q.Text)
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				hits, err := s.Search(c.Context(), q)
				if err != nil && len(hits) == 0 {
					return err
				}
				if err != nil {
					a.report(err)
					err = silent(exitFailed)
				}
				if len(hits) == 0 && q.Mode == agent.ByWords && strings.ContainsFunc(q.Text, unspaced) {
					_, _ = fmt.Fprintln(a.err, "sagestore: nothing has that word; what is written without spaces counts as one word, and --mode contains finds parts of it")
				}
				if printing := a.printHits(hits); printing != nil {
					return printing
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&q.AgentID, "agent", "", "only of the agent of this `id`")
	c.Flags().IntVar(q.Limit, "limit", 20, "at most this `number` of hits")
	c.Flags().StringVar((*string)(&q.Mode), "mode", string(agent.Contains), "`how` to look: contains or words")
	return a.agentFlags(c, "print one hit a line")
}

// unspaced tells whether a character is of a script that puts no spaces between words
// and is not cut into them.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan)
}

func nearMode(name string, modes []agent.Mode) string {
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	if near := nearest.Name(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func (a *app) printHits(hits []agent.Hit) error {
	t := table{columns: []column{
		{title: "CONVERSATION"},
		{title: "AGENT", shrink: true, spare: 2},
		{title: "TIME (UTC)", spare: 1},
		{title: "ROLE"},
		{title: "MESSAGE", shrink: true, least: 24},
	}}
	for _, h := range hits {
		if a.json {
			if err := a.printLine(h); err != nil {
				return err
			}
			continue
		}
		t.add(shown(h.ConversationID), shown(h.AgentID), instant(h.Message.At), shown(string(h.Message.Role)), oneline.Of(around(h)))
	}
	if len(hits) == 0 && !a.json {
		_, _ = fmt.Fprintln(a.err, "sagestore: nothing was found")
	}
	return a.printRows(t)
}

// around is the snippet of a hit from shortly before what was found, so that it is seen
// where there is little room.
func around(h agent.Hit) string {
	const before = 12
	if len(h.Highlights) == 0 {
		return h.Snippet
	}
	runes := []rune(h.Snippet[:h.Highlights[0].Start])
	if len(runes) <= before {
		return h.Snippet
	}
	return "…" + strings.TrimLeft(string(runes[len(runes)-before:]), "…") + h.Snippet[h.Highlights[0].Start:]
}
