// Package check tells from the logs of workers and from what is stored whether a
// store kept its promises through crashes.
//
// It shares no code with the store that it checks and imports nothing of it: it
// reads SQLite by SQL, the file trees by their names and bytes, and Redis by its
// own commands, all as docs/FORMAT.md describes them. What the workers did comes
// from their logs.
//
//	found, err := check.Read(ctx, check.Places{...})
//	faults := check.Round{Logs: logs, Before: last, After: found}.Check()
//
// # Keys
//
// The class of a key says what can be demanded of it:
//
//   - bank: many write it, each after a read. A value names its writer and carries
//     a number one higher than what was read, so all writes of a key are one chain
//     that ends in what is stored.
//   - own: one goroutine writes it, one thing after the other, and may delete it.
//   - pool: many write it without looking. The highest version wins.
package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
)

// The kinds of a line.
const (
	Try     = "try"     // written before the work: what it read and wants to write
	Ack     = "ack"     // it was acknowledged
	Fail    = "fail"    // it was refused: nothing may have changed
	Unknown = "unknown" // nobody knows
	Seen    = "seen"    // what was read, and no more
	Bad     = "bad"     // the worker itself saw a promise broken
)

// Line is one line of a worker's log.
type Line struct {
	Kind   string `json:"k"`
	Op     string `json:"op,omitempty"` // names the operation, uniquely; of a transaction its id
	By     string `json:"by,omitempty"` // the goroutine
	Tx     bool   `json:"tx,omitempty"` // a transaction: all or nothing
	Reads  []Cell `json:"r,omitempty"`
	Writes []Cell `json:"w,omitempty"` // of an Ack: only the versions, in the order of the Try
	Text   string `json:"text,omitempty"`
}

// Cell is a key as it was read, or as it is to be written.
type Cell struct {
	At      string `json:"at"`             // TIER/CATEGORY/KEY
	Op      string `json:"op,omitempty"`   // of a read: who wrote it; empty: absent
	N       int64  `json:"n,omitempty"`    // number of the value
	Version uint64 `json:"v,omitempty"`    // 0: absent, or not known
	Deleted bool   `json:"del,omitempty"`  // of a write
	Cond    bool   `json:"cond,omitempty"` // of a write: under a condition that can't hold
}

// Value is what a record holds.
type Value struct {
	Op  string `json:"op"`
	N   int64  `json:"n"`
	Sum int64  `json:"sum"` // money, of accounts
	Pad string `json:"pad"`
}

// Pad answers the filling of a value, by which a torn one is told.
func Pad(op string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(op)) // never fails
	n := h.Sum32()
	size := int(n % 300)
	if n%23 == 0 {
		size = 6000
	}
	return strings.Repeat(op+"/", size/(len(op)+1)+1)[:size]
}

// Torn answers why the value can't be one that a worker wrote.
func (v Value) Torn() error {
	if v.Op == "" || v.Pad != Pad(v.Op) {
		return fmt.Errorf("the value of operation %q does not fit its filling", v.Op)
	}
	return nil
}

// Class answers the class of a key: bank, own or pool.
func Class(at string) string {
	_, rest, _ := strings.Cut(at, "/")
	class, _, _ := strings.Cut(rest, ".")
	return class
}

// Tier answers the tier of a key.
func Tier(at string) string {
	tier, _, _ := strings.Cut(at, "/")
	return tier
}

// ReadLog reads the log of a worker. A last line that was cut off is no line.
func ReadLog(path string) ([]Line, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err != nil {
		return nil, err
	}
	return ParseLog(b)
}

// ParseLog reads the bytes of a log.
func ParseLog(b []byte) ([]Line, error) {
	var lines []Line
	r := bufio.NewScanner(bytes.NewReader(b))
	r.Buffer(nil, 16<<20)
	n := 0
	for r.Scan() {
		var l Line
		if err := json.Unmarshal(r.Bytes(), &l); err != nil {
			if n+len(r.Bytes()) >= len(b) {
				return lines, nil
			}
			return nil, fmt.Errorf("line %d of a log: %w", len(lines)+1, err)
		}
		n += len(r.Bytes()) + 1
		lines = append(lines, l)
	}
	return lines, r.Err()
}
