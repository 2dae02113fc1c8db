package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/misfit"
)

// talk puts the messages of a conversation together that has no id of its own: it
// gets one from the name of the file and from what the user said first.
type talk struct {
	batch
	owner    string
	key      []string // what the id is derived from, besides
	metadata map[string]string
	system   string
	waiting  []object // until the user has spoken
	lines    []int
	n        int
}

// mostWaiting is how many messages may come before the user speaks.
const mostWaiting = 16

func (r *reading) talk(id, owner string, key ...string) *talk {
	t := &talk{batch: batch{r: r, titled: true}, owner: owner, key: append([]string{filepath.Base(r.src.path)}, key...)}
	if id != "" {
		t.begin(id)
	}
	return t
}

func (t *talk) begin(id string) {
	t.head = &agent.Conversation{
		ID: id, AgentID: t.r.agent(t.owner), Created: t.r.src.modified, Metadata: t.metadata, SystemPrompt: t.system,
	}
}

// say takes the next message.
func (t *talk) say(line int, o object) error {
	if err := roleOf(o); err != nil {
		t.r.fault(line, "", err)
		return nil
	}
	if t.head != nil {
		return t.put(line, o)
	}
	t.waiting, t.lines = append(t.waiting, o), append(t.lines, line)
	if role := textOf(o["role"]); role == "user" || role == "User" || len(t.waiting) >= mostWaiting {
		return t.settle(string(o["content"]))
	}
	return nil
}

// settle gives the conversation its id.
func (t *talk) settle(first string) error {
	t.begin(derived(append(append([]string{"conversation"}, t.key...), first)...))
	for i, o := range t.waiting {
		if err := t.put(t.lines[i], o); err != nil {
			return err
		}
	}
	t.waiting, t.lines = nil, nil
	return nil
}

func (t *talk) put(line int, o object) error {
	t.n++
	ms, err := said{raw: o, at: t.r.src.modified, conv: t.head.ID, n: t.n}.messages()
	if err != nil {
		t.r.fault(line, "", err)
		return nil
	}
	return t.add(line, ms...)
}

// end hands over the rest.
func (t *talk) end() error {
	if t.head == nil {
		if len(t.waiting) == 0 {
			return nil
		}
		if err := t.settle(string(t.waiting[0]["content"])); err != nil {
			return err
		}
	}
	return t.flush()
}

// idOf answers the id that a document gives its conversation.
func idOf(fields map[string]json.RawMessage) string {
	for _, name := range []string{"conversation_id", "session_id", "thread_id", "id"} {
		if id := textOf(fields[name]); id != "" {
			return id
		}
	}
	return ""
}

// documentMetadata keeps what a document says besides its messages.
func documentMetadata(fields map[string]json.RawMessage, but ...string) map[string]string {
	rest := object{}
	maps.Copy(rest, fields)
	for _, name := range but {
		delete(rest, name)
	}
	return rest.metadata(nil)
}

// chat reads an array of messages, or an object with one, such as what a program
// sends to the interface of a model.
func (r *reading) chat() error {
	name := "messages"
	var t *talk
	if r.src.head.array {
		name = ""
		t = r.talk("", "chat")
	} else {
		f := r.about(name)
		t = r.talk("", "chat")
		t.metadata = documentMetadata(f, "messages", "conversation_id", "session_id", "thread_id", "id", "system")
		if c := contentOf(f["system"]); len(c.texts) > 0 {
			t.system = c.text()
		}
		if id := idOf(f); id != "" {
			t.begin(id)
		}
	}
	if err := r.eachElement(name, t.say); err != nil {
		return err
	}
	return t.end()
}

// chatLines reads JSON Lines: a message a line, all of one conversation, or a whole
// chat a line.
func (r *reading) chatLines(ctx context.Context) error {
	all := r.talk("", "chat")
	err := r.eachLine(ctx, func(line int, o object) error {
		if o["messages"] == nil {
			return all.say(line, o)
		}
		return r.chatLine(line, o)
	})
	if err != nil {
		return err
	}
	return all.end()
}

func (r *reading) chatLine(line int, o object) error {
	var ms []object
	raw := o.take("messages")
	if err := json.Unmarshal(raw, &ms); err != nil {
		r.fault(line, "", fmt.Errorf("%w: %s", errNoMessages, misfit.Why(raw, &ms, err)))
		return nil
	}
	id := idOf(o)
	for _, name := range []string{"conversation_id", "session_id", "thread_id", "id"} {
		delete(o, name)
	}
	t := r.talk("", "chat", strconv.Itoa(line))
	t.metadata = o.metadata(nil)
	if id != "" {
		t.begin(id)
	}
	for _, m := range ms {
		if m == nil {
			r.fault(line, "", errNoMessages)
			continue
		}
		if err := t.say(line, m); err != nil {
			return err
		}
	}
	return t.end()
}

// trajectory reads the run of an agent on a task: its history is a conversation.
func (r *reading) trajectory() error {
	f := r.about("history")
	owner := "trajectories"
	t := r.talk(idOf(f), owner)
	t.metadata = documentMetadata(f, "history", "trajectory", "info", "replay_config", "id")
	var about object
	if json.Unmarshal(f["info"], &about) == nil {
		t.metadata = about.metadata(t.metadata)
	}
	if t.head != nil {
		t.head.Metadata = t.metadata
	}
	err := r.eachElement("history", func(line int, o object) error {
		for _, name := range []string{"thought", "action"} { // mostly what the content says
			if string(o[name]) == string(o["content"]) {
				delete(o, name)
			}
		}
		return t.say(line, o)
	})
	if err != nil {
		return err
	}
	return t.end()
}
