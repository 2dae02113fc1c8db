package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/session"
)

// page writes Markdown. After an error it writes nothing.
type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// plain is text as Markdown shows it, in one line.
func plain(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "#", `\#`, "[", `\[`, "]", `\]`, "<", `\<`, "|", `\|`).Replace(text)
}

// longestHeading is how much of a text is a heading, in characters as people see them.
const longestHeading = 120

// heading is text as a heading: its beginning when it is long, and others when it is
// empty.
func heading(text string, others ...string) string {
	text = plain(strings.TrimSpace(text))
	for _, other := range others {
		if text == "" {
			text = plain(other)
		}
	}
	at, n := 0, 0
	for rest, state := text, -1; rest != ""; n++ {
		if n == longestHeading {
			return strings.TrimRight(text[:at], `\`) + "…" // no escape is cut in two
		}
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		at += len(cluster)
	}
	return text
}

// block writes text as it is, in a fence that it can't end.
func (p *page) block(language, text string) {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	p.printf("%s%s\n%s\n%s\n\n", fence, language, strings.TrimRight(text, "\n"), fence)
}

func (p *page) item(name, text string) {
	if text != "" {
		p.printf("- %s: %s\n", name, plain(text))
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// AgentMarkdown writes an agent with its conversations for people.
func AgentMarkdown(ctx context.Context, s *agent.Store, id string, w io.Writer) error {
	a, err := s.Load(ctx, id)
	if err != nil {
		return err
	}
	p := &page{w: w}
	p.printf("# %s\n\n", heading(a.Name, a.ID))
	p.item("id", a.ID)
	p.item("type", a.Type)
	p.item("capabilities", strings.Join(a.Capabilities, ", "))
	p.item("created", moment(a.Created))
	p.item("changed", moment(a.Modified))
	for _, key := range slices.Sorted(maps.Keys(a.Metadata)) {
		p.item(plain(key), a.Metadata[key])
	}
	p.printf("\n")
	if a.SystemPrompt != "" {
		p.printf("System prompt:\n\n")
		p.block("", a.SystemPrompt)
	}
	p.json("Configuration", a.Config)
	p.json("State", a.Custom)
	fields, unread := s.Fields(id).LoadAll(ctx)
	if fields == nil {
		return unread
	}
	all := map[string]any{}
	for name, v := range fields {
		all[name] = v
	}
	p.json("Fields", all)
	ids, bad, err := conversationIDs(ctx, s, id)
	if err != nil {
		return err
	}
	if unread != nil {
		bad = append(bad, unread)
	}
	for _, c := range ids {
		if err := p.conversation(ctx, s, c, "##", &bad); err != nil {
			return err
		}
	}
	return errors.Join(append(bad, p.err)...)
}

func (p *page) json(title string, v map[string]any) {
	if len(v) == 0 {
		return
	}
	text, err := serializer.JSON().Append(nil, v)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.printf("%s:\n\n", title)
	p.block("json", string(text))
}

// ConversationMarkdown writes a conversation for people.
func ConversationMarkdown(ctx context.Context, s *agent.Store, id string, w io.Writer) error {
	p := &page{w: w}
	var bad []error
	if err := p.conversation(ctx, s, id, "#", &bad); err != nil {
		return err
	}
	return errors.Join(append(bad, p.err)...)
}

func (p *page) conversation(ctx context.Context, s *agent.Store, id, level string, bad *[]error) error {
	return pages(ctx, s, id, bad, func(c *agent.Conversation) error {
		p.printf("%s %s\n\n", level, heading(c.Title, c.ID))
		p.item("id", c.ID)
		p.item("agent", c.AgentID)
		p.item("tags", strings.Join(c.Tags, ", "))
		p.item("begun", moment(c.Created))
		if c.Archived {
			p.item("archived", "yes")
		}
		p.printf("\n")
		if c.SystemPrompt != "" {
			p.printf("System prompt:\n\n")
			p.block("", c.SystemPrompt)
		}
		return p.err
	}, func(m agent.Message) error {
		p.message(m, level+"#")
		return p.err
	})
}

// message writes what was said. What a person or a model wrote is Markdown mostly and
// stays; what a tool answered is shown as it is.
func (p *page) message(m agent.Message, level string) {
	p.printf("%s %s, %s\n\n", level, heading(string(m.Role), "message"), moment(m.At))
	switch {
	case m.Content == "":
	case m.Role == agent.User || m.Role == agent.Assistant:
		p.printf("%s\n\n", quoteLines(m.Content))
	default:
		p.block("", m.Content)
	}
	for _, t := range m.ToolCalls {
		p.printf("Calls %s (%s):\n\n", plain(t.Name), plain(string(t.Status)))
		p.block("json", string(t.Arguments))
	}
	for _, a := range m.Attachments {
		at := a.Name
		if at == "" {
			at = string(a.Kind)
		}
		p.printf("- attached: %s %s", plain(at), plain(a.MIME))
		if a.URL != "" && len(a.URL) < 500 {
			p.printf(" %s", plain(a.URL))
		}
		p.printf("\n")
	}
	if len(m.Attachments) > 0 {
		p.printf("\n")
	}
}

// quoteLines quotes a text, so that its headings are not those of the page.
func quoteLines(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n> ")
}

// SessionMarkdown writes the events of a session for people.
func SessionMarkdown(ctx context.Context, s *session.Store, id string, w io.Writer) error {
	p := &page{w: w}
	p.printf("# Session %s\n\n", heading(id))
	var bad []error
	for e, err := range s.Events(ctx, id, 0) {
		switch {
		case err != nil && e.Seq == 0:
			return err
		case err != nil:
			bad = append(bad, err)
			continue
		}
		p.printf("## %d. %s, %s\n\n", e.Seq, heading(e.Method, "event"), moment(e.Time))
		p.event(e)
		if p.err != nil {
			return p.err
		}
	}
	return errors.Join(append(bad, p.err)...)
}

// event writes the text that an event is about, and what else it says as JSON.
func (p *page) event(e session.Event) {
	var params map[string]json.RawMessage
	if json.Unmarshal(e.Params, &params) == nil {
		for _, name := range []string{"prompt", "full_text"} {
			if text := textOf(params[name]); text != "" {
				p.printf("%s\n\n", quoteLines(text))
				delete(params, name)
			}
		}
		if len(params) == 0 {
			return
		}
		text, err := json.MarshalIndent(params, "", "  ")
		if err != nil && p.err == nil {
			p.err = err
		}
		p.block("json", string(text))
		return
	}
	if len(e.Params) > 0 {
		p.block("json", string(e.Params))
	}
}
