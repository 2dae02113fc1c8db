package crashtest

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/sagestore/sagestore/tiers"
)

// The classes of an error that a child got.
const (
	Unknown     = "unknown"     // tiers.ErrCommitUnknown
	Full        = "full"        // tiers.ErrFull
	Unavailable = "unavailable" // tiers.ErrUnavailable
	Corrupt     = "corrupt"     // tiers.ErrCorrupt
	Other       = "other"
)

// Event is something that a child reported.
type Event struct {
	Kind    string        `json:"kind"` // ready, ack, err or open
	Key     string        `json:"key,omitempty"`
	N       int           `json:"n,omitempty"`       // number of the operation on that key
	Version tiers.Version `json:"version,omitempty"` // of a save
	Late    bool          `json:"late,omitempty"`    // the operation began after some caller had got an error
	Class   string        `json:"class,omitempty"`   // of an error
	Text    string        `json:"text,omitempty"`    // of an error
}

// String is the event's line.
func (e Event) String() string {
	if len(e.Text) > 1000 {
		e.Text = e.Text[:1000]
	}
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Sprintf(`{"kind":"err","text":%q}`, err)
	}
	return string(b)
}

// readEvents hands the lines of a child to fn until the pipe ends. A last line
// that was cut off by the kill is dropped: what it told never arrived.
func readEvents(r io.Reader, fn func(Event)) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %q of the child: %w", line, err)
		}
		fn(e)
	}
}

// stored is the value of a record: which operation made it, and a sum over all.
type stored struct {
	Key string `json:"key"`
	N   int    `json:"n"`
	Pad string `json:"pad"`
	Sum string `json:"sum"`
}

func (s stored) sum() string {
	all := fmt.Sprintf("%d:%s %d %d:%s", len(s.Key), s.Key, s.N, len(s.Pad), s.Pad)
	h := sha256.Sum256([]byte(all))
	return hex.EncodeToString(h[:])
}

func encode(key string, n int, pad string) []byte {
	s := stored{Key: key, N: n, Pad: pad}
	s.Sum = s.sum()
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and a number always encode
	}
	return b
}

// decode answers the operation that made the value, or what is torn.
func decode(key string, value []byte) (n int, err error) {
	var s stored
	if err := json.Unmarshal(value, &s); err != nil {
		return 0, fmt.Errorf("the value does not decode: %w", err)
	}
	if s.Key != key {
		return 0, fmt.Errorf("the value is that of key %q", s.Key)
	}
	if s.sum() != s.Sum {
		return 0, fmt.Errorf("the value of operation %d does not match its sum", s.N)
	}
	return s.N, nil
}
