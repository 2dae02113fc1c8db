package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/tiers"
)

// shownTool is the JSON shape of a tool.
type shownTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Destructive bool   `json:"destructive"`
	Input       any    `json:"input"`
	Output      any    `json:"output"`
}

func (a *app) toolCommand() *cobra.Command {
	return group("tool", "List and call the operations that models are offered",
		`Tools are the operations of package agent that a program offers to a model. Their input
and output are JSON, with a schema.`,
		a.toolListCommand(), a.toolCallCommand())
}

// toolNames answers those of all operations, for Tools to allow all.
func toolNames() []string {
	return []string{"agent_delete", "conversation_delete", "checkpoint_restore", "checkpoint_delete"}
}

func (a *app) toolListCommand() *cobra.Command {
	owner := ""
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tools",
		Long: `List the tools with what they are for; with --json with the schemas of their input and
output. Those that are destructive may lose something that is stored.`,
		Example: `  sagestore tool list
  sagestore tool list --agent support --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := notEmpty(c, "agent"); err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				t := table{columns: []column{{title: "TOOL"}, {title: "DOES", shrink: true}, {title: ""}}}
				all := []shownTool{}
				for _, tool := range s.Tools(owner, toolNames()...) {
					all = append(all, shownTool{tool.Name, tool.Description, tool.Destructive, tool.Input, tool.Output})
					mark := ""
					if tool.Destructive {
						mark = "destructive"
					}
					t.add(tool.Name, tool.Description, mark)
				}
				if a.json {
					return a.printJSON(all)
				}
				return a.printTable(t)
			})
		},
	}
	c.Flags().StringVar(&owner, "agent", "", "as they are for the agent of this `id`: they reach no other")
	return a.agentFlags(c, "print JSON, with schemas")
}

func (a *app) toolCallCommand() *cobra.Command {
	owner := ""
	var d destruction
	c := &cobra.Command{
		Use:   "call NAME [JSON|-]",
		Short: "Call a tool",
		Long: `Call a tool with an input, and print its output: JSON both. - is standard input, and no
JSON is the empty object. Before one that is destructive it asks, unless --yes is
given. Input that does not fit the schema is an error (2) and changes nothing.`,
		Example: `  sagestore tool call agent_list
  sagestore tool call agent_load '{"agent_id":"support"}'`,
		Args: count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := notEmpty(c, "agent"); err != nil {
				return err
			}
			input := []byte("{}")
			if len(args) > 1 {
				input = []byte(args[1])
			}
			if string(input) == "-" {
				var err error
				if input, err = io.ReadAll(io.LimitReader(a.in, maxOperations)); err != nil {
					return err
				}
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				tool, err := agent.ToolNamed(s.Tools(owner, toolNames()...), args[0])
				if e, ok := errors.AsType[*tiers.Error](err); ok {
					return usagef(e.Hint, "there is no tool %q", args[0])
				}
				if err != nil {
					return err
				}
				of := facts{"tool": tool.Name, "destructive": tool.Destructive, "input": string(input)}
				if json.Valid(input) {
					of["input"] = json.RawMessage(input)
				}
				if tool.Destructive {
					if proceed, err := d.may(c.Context(), a, fmt.Sprintf("call %s with %s", tool.Name, oneline.Of(string(input))), of); err != nil || !proceed {
						return err
					}
				} else if d.dry {
					return a.would("call "+tool.Name, of)
				}
				output, err := tool.Call(c.Context(), input)
				if errors.Is(err, tiers.ErrType) {
					return usagef(fieldsOf(tool)+"sagestore tool list --json shows the schema", "%w", err)
				}
				if err != nil {
					return err
				}
				return unprinted(a.printValue(output))
			})
		},
	}
	c.Flags().StringVar(&owner, "agent", "", "for the agent of this `id`: the tool reaches no other, and the input need not name it")
	d.flags(c)
	return a.agentFlags(c, "with --dry-run print JSON; the output is JSON anyhow")
}

// fieldsOf names the fields of a tool's input.
func fieldsOf(tool agent.Tool) string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(tool.Input, &schema) != nil || len(schema.Properties) == 0 {
		return ""
	}
	return "it takes " + strings.Join(slices.Sorted(maps.Keys(schema.Properties)), ", ") + "; "
}
