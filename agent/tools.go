package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// Tool is an operation that an agent's runtime can offer to a model: what it is
// called, what it is for, JSON Schemas of what goes in and comes out, and Call,
// which does it in one transaction. Input that does not fit the schema is
// tiers.ErrType and changes nothing.
type Tool struct {
	Name        string
	Description string
	Input       json.RawMessage
	Output      json.RawMessage
	Destructive bool // something that is stored may be lost by it
	Call        func(ctx context.Context, in json.RawMessage) (json.RawMessage, error)
}

// Tools answers the operations, bound to one agent: they reach no other. Those
// that are destructive are among them only when allow names them. With an empty
// agentID nothing is bound and the input names the agent.
func (s *Store) Tools(agentID string, allow ...string) []Tool {
	all := slices.Concat(s.agentTools(agentID), s.conversationTools(agentID), s.checkpointTools(agentID))
	return slices.DeleteFunc(all, func(t Tool) bool { return t.Destructive && !slices.Contains(allow, t.Name) })
}

// ToolNamed answers the tool of a name. The error about an unknown one names the
// nearest.
func ToolNamed(tools []Tool, name string) (Tool, error) {
	names := make([]string, len(tools))
	for i, t := range tools {
		if t.Name == name {
			return t, nil
		}
		names[i] = t.Name
	}
	hint := "there are " + strings.Join(names, ", ")
	if n := nearest.Name(name, names); n != "" {
		hint = "did you mean " + n + "?"
	}
	return Tool{}, &tiers.Error{Op: "tool", Key: name, Hint: hint, Err: fmt.Errorf("no such tool: %w", tiers.ErrNotFound)}
}

// toolTries bounds how often a tool's transaction runs again after a conflict. An
// agent that others have saved stays a conflict, however often it is tried.
const toolTries = 3

// owner is the part of an input that names the agent.
type owner interface{ agent() *string }

// ofAgent is embedded by inputs that are about an agent.
type ofAgent struct {
	AgentID string `json:"agent_id" doc:"the agent"`
}

func (o *ofAgent) agent() *string { return &o.AgentID }

// tool makes a tool from a function on decoded values. The function runs in a
// transaction; bound is the agent that it may touch, "" for any.
func tool[In, Out any](s *Store, bound, name, description string, destructive bool, fn func(context.Context, *Store, *In) (Out, error)) Tool {
	in, out := schemaOf(reflect.TypeFor[In]()), schemaOf(reflect.TypeFor[Out]())
	if _, is := any(new(In)).(owner); is && bound != "" {
		if properties, ok := in["properties"].(map[string]any); ok {
			delete(properties, "agent_id")
		}
		if required, ok := in["required"].([]string); ok {
			in["required"] = slices.DeleteFunc(required, func(n string) bool { return n == "agent_id" })
		}
	}
	return Tool{
		Name: name, Description: description, Input: text(in), Output: text(out), Destructive: destructive,
		Call: func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
			input := new(In)
			if err := strictly(raw, input); err != nil {
				return nil, fail(name, "", "", err)
			}
			if o, is := any(input).(owner); is {
				if id := o.agent(); bound != "" && *id != "" && *id != bound {
					return nil, fail(name, "", "", fmt.Errorf("%w: agent_id is not among the inputs", tiers.ErrType))
				} else if bound != "" {
					*id = bound
				} else if *id == "" {
					return nil, fail(name, "", "", fmt.Errorf("%w: agent_id is missing", tiers.ErrType))
				}
			}
			var answer Out
			err := s.scope.Update(ctx, func(tx *manager.Tx) (err error) {
				answer, err = fn(ctx, s.In(tx), input)
				return reveal(err)
			}, manager.WithRetry(toolTries))
			if err != nil {
				return nil, fail(name, "", "", err)
			}
			output, err := serializer.JSON().Append(nil, answer) // with the revisions that the commit made
			return output, fail(name, "", "", err)
		},
	}
}

func text(schema map[string]any) json.RawMessage {
	raw, err := json.Marshal(schema)
	if err != nil {
		return json.RawMessage("{}") // a schema is maps and lists of text
	}
	return raw
}

// strictly decodes an input: what the schema does not know, or does not allow to be
// left out, is an error.
func strictly(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(reflect.New(reflect.TypeOf(into).Elem()).Interface()); err != nil {
		return fmt.Errorf("%w: the input: %s", tiers.ErrType, misfit.Why(raw, into, err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the input goes on after its end", tiers.ErrType)
	}
	if err := serializer.JSON().Decode(raw, into); err != nil {
		return fmt.Errorf("%w: the input: %s", tiers.ErrType, misfit.Why(raw, into, err))
	}
	return missing(raw, into)
}

// missing names what an input leaves out.
func missing(raw json.RawMessage, into any) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return fmt.Errorf("%w: the input is no JSON object", tiers.ErrType)
	}
	var required []string
	fields(reflect.TypeOf(into).Elem(), make(map[string]any), &required)
	for _, name := range required {
		if _, there := given[name]; !there && name != "agent_id" {
			return fmt.Errorf("%w: %s is missing", tiers.ErrType, name)
		}
	}
	return nil
}

// mine refuses what belongs to another agent than the tools are bound to: for
// them it is not there.
func mine(bound, agentID string) error {
	if bound != "" && agentID != bound {
		return tiers.ErrNotFound
	}
	return nil
}

// mineConversation is mine for a conversation, and answers whose it is.
func (s *Store) mineConversation(ctx context.Context, bound, id string) (agentID string, found bool, err error) {
	ref, _, found, err := s.conversation(ctx, id)
	if err != nil || !found || bound != "" && ref.AgentID != bound {
		return "", false, reveal(err)
	}
	return ref.AgentID, true, nil
}
