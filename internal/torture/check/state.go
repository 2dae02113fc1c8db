package check

import (
	"encoding/json"
	"fmt"
)

// State is what is stored, by TIER/CATEGORY/KEY.
type State map[string]Stored

// Stored is one record.
type Stored struct {
	Value
	Version uint64
}

// Fault is one broken promise.
type Fault struct {
	Kind string // lost, torn, partial, ...
	Text string
}

func (f Fault) String() string { return f.Kind + ": " + f.Text }

func faultf(kind, format string, args ...any) Fault {
	return Fault{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// put adds a record, whose value is JSON.
func (s State) put(at string, version uint64, value []byte) *Fault {
	var v Value
	if err := json.Unmarshal(value, &v); err != nil {
		f := faultf("corrupt", "%s is no JSON: %v", at, err)
		return &f
	}
	if err := v.Torn(); err != nil {
		f := faultf("torn", "%s: %v", at, err)
		return &f
	}
	if old, twice := s[at]; twice {
		f := faultf("twice", "%s is there twice, with versions %d and %d", at, old.Version, version)
		return &f
	}
	s[at] = Stored{Value: v, Version: version}
	return nil
}
