package agent

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sagestore/sagestore/tiers"
)

// State is an agent: what it is, what it can do, and what it remembers apart
// from its conversations. Times are UTC with nanoseconds.
//
// Values of Config and Custom are what JSON can say. They come back as string,
// bool, nil, int64, uint64, float64, []any and map[string]any; whole numbers keep
// every digit.
type State struct {
	ID           string            `json:"id"` // given by the app, or made by [NewState]
	Name         string            `json:"name"`
	Type         string            `json:"type"`
	SystemPrompt string            `json:"system_prompt,omitempty"`
	Capabilities []string          `json:"capabilities,omitempty"`
	Config       map[string]any    `json:"config,omitempty"`
	Custom       map[string]any    `json:"custom,omitempty"` // each entry is stored by itself
	Metadata     map[string]string `json:"metadata,omitempty"`
	Created      time.Time         `json:"created"`
	Modified     time.Time         `json:"modified"` // set by every save, never back
	Version      int               `json:"version"`  // the app's own, of its state's schema; 1 when new, never changed by a Store

	// Active names the conversations that are not archived, oldest first. A Store
	// keeps it: it is filled by a load, and what a save finds in it is not stored.
	Active []string `json:"active,omitempty"`

	// Repaired names conversations that were active and of which nothing is stored.
	// The load that filled it has taken them from the list.
	Repaired []string `json:"repaired,omitempty"`

	// Revision is the version of what is stored, 0 for an agent that is not. A save
	// sets it; in a transaction, once that is committed.
	Revision tiers.Version `json:"revision,omitempty"`
}

// NewState answers an agent with an id, a name and a type, such as the model it
// uses. An empty id is replaced by a new UUID.
func NewState(id, name, kind string) *State {
	now := now(tiers.SystemClock())
	if id == "" {
		id = newID()
	}
	return &State{ID: id, Name: name, Type: kind, Created: now, Modified: now, Version: 1}
}

// Set puts a value into Custom.
func (a *State) Set(key string, value any) {
	if a.Custom == nil {
		a.Custom = make(map[string]any)
	}
	a.Custom[key] = value
}

// Get answers a value of Custom, and whether there is one.
func (a *State) Get(key string) (value any, ok bool) {
	value, ok = a.Custom[key]
	return value, ok
}

// now answers the clock's time as it is kept.
func now(c tiers.Clock) time.Time { return c.Now().Round(0).UTC() }

// newID answers a UUID whose order is that of the time.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString() // which panics when there is no randomness at all
	}
	return id.String()
}

// maxID bounds ids, in bytes, so that they and what is under them fit a key.
const maxID = 200

// checkID answers ErrKey for what can't be an id.
func checkID(what, id string) error {
	var problem string
	switch {
	case id == "":
		problem = "is empty"
	case len(id) > maxID:
		problem = fmt.Sprintf("has %d bytes, %d are allowed", len(id), maxID)
	case strings.IndexByte(id, 0) >= 0:
		problem = "holds a NUL byte"
	case !utf8.ValidString(id):
		problem = "is not valid UTF-8"
	default:
		return nil
	}
	return fmt.Errorf("%w: the id of the %s %s", tiers.ErrKey, what, problem)
}
