package session

import "encoding/json"

// InitType says whether a session begins or goes on.
type InitType string

// The types of [Init].
const (
	InitStart  InitType = "Start"
	InitResume InitType = "Resume"
)

// Init begins a session, or lets one go on.
type Init struct {
	Model    string   `json:"model"`
	Provider string   `json:"provider"`
	System   string   `json:"system"` // prompt
	InitType InitType `json:"init_type"`
}

// Stop ends a session. Result is a text, or a list of parts.
type Stop struct {
	Result  any    `json:"result"`
	Error   string `json:"error,omitempty"`
	Success bool   `json:"success"`
	Usage   Usage  `json:"usage"`
}

// Usage is what a session, or a response, has cost.
type Usage struct {
	Latency          int64 `json:"latency"` // as whoever measured it counts
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
}

// Forked is the first event that a forked session has for itself.
type Forked struct {
	Parent string `json:"parent_session_id"`
	At     uint64 `json:"at,omitempty"` // the last event that both have
}

// UserPrompt is what the user asks.
type UserPrompt struct {
	Prompt string `json:"prompt"`
}

// StreamDelta is a piece of an answer on its way. DeltaType is Text or Thinking.
type StreamDelta struct {
	Delta     string `json:"delta"`
	DeltaType string `json:"delta_type"`
}

// ToolCall is the model's wish to use a tool.
type ToolCall struct {
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	Input      json.RawMessage `json:"input"`
}

// ToolAnyCall is a [ToolCall] of a tool of any sort: skills and tasks as well.
type ToolAnyCall struct {
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	Input      json.RawMessage `json:"input"`
}

// ToolResult is what a tool answered.
type ToolResult struct {
	ToolCallID string     `json:"tool_call_id"`
	Result     ToolAnswer `json:"result"`
}

// ToolAnswer has either of both.
type ToolAnswer struct {
	OK  *string `json:"Ok,omitempty"`
	Err *string `json:"Err,omitempty"`
}

// SkillLoad tells that a skill was loaded.
type SkillLoad struct {
	SkillName string `json:"skill_name"`
}

// AssistantResponse is a whole answer. Some apps send FullText and ToolCalls, some
// Content.
type AssistantResponse struct {
	FullText  string          `json:"full_text,omitempty"`
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	Model     string          `json:"model,omitempty"`
	Usage     *Usage          `json:"usage,omitempty"`
}

// AssistantTask tells how far a task is: Queued, InProgress or Done.
type AssistantTask struct {
	TaskName   string `json:"task_name"`
	TaskStatus string `json:"task_status"`
}

// The methods of events that mean something to this package.
const (
	methodInit     = "session.init"
	methodStop     = "session.stop"
	methodFork     = "session.fork"
	methodResponse = "assistant.response"
)

// Method implements [Payload].
func (Init) Method() string { return methodInit }

// Method implements [Payload].
func (Stop) Method() string { return methodStop }

// Method implements [Payload].
func (Forked) Method() string { return methodFork }

// Method implements [Payload].
func (UserPrompt) Method() string { return "user.prompt.submit" }

// Method implements [Payload].
func (StreamDelta) Method() string { return "stream.delta" }

// Method implements [Payload].
func (ToolCall) Method() string { return "tool.call" }

// Method implements [Payload].
func (ToolAnyCall) Method() string { return "tool.any_call" }

// Method implements [Payload].
func (ToolResult) Method() string { return "tool.result" }

// Method implements [Payload].
func (SkillLoad) Method() string { return "skill.load" }

// Method implements [Payload].
func (AssistantResponse) Method() string { return methodResponse }

// Method implements [Payload].
func (AssistantTask) Method() string { return "assistant.task" }
