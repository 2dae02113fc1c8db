package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

// maxState bounds what is read of a state, in bytes. One has a few hundred.
const maxState = 16 << 10

// StateFile keeps a state as JSON in one file, with mode 0600. Save makes missing
// directories, with mode 0700, and is durable when it returns.
func StateFile(path string) StateStore { return stateFile(path) }

type stateFile string

// Load reads the file.
func (f stateFile) Load(context.Context) (State, error) {
	b, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, f.fail("load", err)
	}
	s, err := parseState(b)
	if err != nil {
		return State{}, tiers.Hint(f.fail("load", err), "remove "+string(f)+": a new one is written, and nothing is missed but what it knew of the clock")
	}
	return s, nil
}

func (f stateFile) read() ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(string(f)))
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	file, err := root.Open(filepath.Base(string(f)))
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	return io.ReadAll(io.LimitReader(file, maxState+1))
}

func parseState(b []byte) (State, error) {
	if len(b) > maxState {
		return State{}, fmt.Errorf("%w: more than %d bytes", tiers.ErrCorrupt, maxState)
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	if s.Tries < 0 || !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return State{}, fmt.Errorf("%w: no state of a schedule", tiers.ErrCorrupt)
	}
	return s, nil
}

// Save writes a file beside and renames it.
func (f stateFile) Save(_ context.Context, s State) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return f.fail("save", err)
	}
	dir, name := filepath.Split(string(f))
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f.fail("save", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return f.fail("save", err)
	}
	return f.fail("save", errors.Join(replaceFile(root, name, append(b, '\n')), root.Close()))
}

func replaceFile(root *os.Root, name string, b []byte) error {
	beside := name + ".new"
	// What a process that died left behind; its owner can't be alive under the lock.
	if err := root.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, root.Remove(beside))
	}
	if err := root.Rename(beside, name); err != nil {
		return errors.Join(err, root.Remove(beside))
	}
	return filetree.SyncRoot(root)
}

func (f stateFile) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &tiers.Error{Op: op + " state of the schedule", Err: err}
}
