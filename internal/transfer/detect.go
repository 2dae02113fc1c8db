package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// source is a file with what it holds.
type source struct {
	path     string
	format   Format
	head     head
	created  time.Time // of a checkpoint: their order
	modified time.Time // of the file, for what has no time of its own
	size     int64
}

// head is what the beginning of a document says: of an object the values by name,
// but for long ones.
type head struct {
	array  bool
	fields map[string]json.RawMessage // nil for those that are long
	opens  map[string]byte            // the first byte of each value
	lines  map[string]int             // of each value
	twice  []namedLine                // members whose name was there before
	first  json.RawMessage            // element of an array
	more   bool                       // something follows the document
	err    error                      // that it ends with
}

// namedLine is where a member stands.
type namedLine struct {
	name string
	line int
}

const (
	mostHead  = 256 << 10 // of a value in a head, in bytes
	mostHeads = 8 << 20   // of all of them
	sniffed   = 64        // lines that are looked at
	mostTwice = 100       // members that are told to be there twice
)

// walk answers the files of a path, in order: one file, or all below a directory.
// Links are not followed there.
func walk(path string) (files []string, dir bool, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, false, err
	}
	if !st.IsDir() {
		return []string{path}, false, nil
	}
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, at)
		}
		return err
	})
	return files, true, err
}

// openRegular opens a file for reading, and nothing else: of a pipe, a read would wait
// for somebody who writes.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		return nil, nil, errNotRegular()
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the user names it
	if err != nil {
		return nil, nil, err
	}
	if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() { // it is another one by now
		err = errNotRegular()
	}
	if err != nil {
		_ = f.Close() // it was read only
		return nil, nil, err
	}
	return f, st, nil
}

func errNotRegular() error {
	return tiers.Hint(fmt.Errorf("%w: it is no regular file", tiers.ErrUnsupported), "write what it gives into a file, and import that")
}

// detect answers what a file holds. An empty format is none that is known.
func detect(path string) (*source, error) {
	f, st, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read only
	src := &source{path: path, modified: st.ModTime().UTC(), size: st.Size()}
	magic := make([]byte, 16)
	if n, _ := io.ReadFull(f, magic); bytes.Equal(magic[:n], []byte("SQLite format 3\x00")) {
		src.format = Database
		return src, nil
	}
	if err := toText(f); err != nil {
		return nil, err
	}
	src.head = readHead(f)
	if src.head.err != nil || src.head.more {
		if err := toText(f); err != nil {
			return nil, err
		}
		src.format = formatOfLines(f)
	}
	if src.format == "" && !src.head.more {
		src.format = src.head.format(path)
	}
	src.created = instant(src.head.fields["created_at"])
	return src, nil
}

// toText goes to where the text of a file begins: behind the mark with which some
// editors say that it is UTF-8.
func toText(f *os.File) error {
	mark := make([]byte, 3)
	if n, err := f.ReadAt(mark, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if string(mark[:n]) != "\uFEFF" {
		mark = nil
	}
	_, err := f.Seek(int64(len(mark)), io.SeekStart)
	return err
}

// readHead looks at the first JSON value of a text.
func readHead(r io.Reader) (h head) {
	s := newSkimmer(r)
	h.fields, h.opens, h.lines = map[string]json.RawMessage{}, map[string]byte{}, map[string]int{}
	left := mostHeads
	first, err := s.look()
	switch {
	case err != nil:
		h.err = err
		return h
	case first == '[':
		h.array = true
		h.err = s.array(func() error {
			most := mostHead
			if h.first != nil {
				most = 0
			}
			text, whole, err := s.value(most)
			if h.first == nil && whole {
				h.first = text
			}
			return err
		})
	case first == '{':
		h.err = s.object(func(name string) error {
			c, err := s.must()
			if err != nil {
				return err
			}
			if h.opens[name] != 0 {
				if len(h.twice) < mostTwice {
					h.twice = append(h.twice, namedLine{name, s.line})
				}
				_, _, err := s.value(0)
				return err
			}
			h.opens[name], h.lines[name] = c, s.line
			text, whole, err := s.value(min(mostHead, left))
			if whole && err == nil {
				h.fields[name] = text
				left -= len(text)
			}
			return err
		})
	default:
		h.err = s.unexpected(first)
	}
	if h.err == nil {
		_, err := s.look()
		h.more = !errors.Is(err, io.EOF)
	}
	return h
}

func (h *head) has(names ...string) bool {
	for _, n := range names {
		if h.opens[n] == 0 {
			return false
		}
	}
	return true
}

// fieldFile is how the files of a field store are called: by CheckpointKey.
var fieldFile = regexp.MustCompile(`^.+_[0-9a-f]{16}\.json$`)

// format answers what a document is.
func (h *head) format(path string) Format {
	switch {
	case h.array:
		var m map[string]json.RawMessage
		if json.Unmarshal(h.first, &m) == nil && m["role"] != nil {
			return Chat
		}
		return ""
	case h.has("format", "sha256", "checkpoint"):
		return PortableCheckpoint
	case h.has("agent_state", "conversations", "checksum"):
		return AgentCheckpoint
	case h.opens["conversation"] == '{' && h.has("id", "agent_id", "iteration"):
		return IterationCheckpoint
	case h.has("agent_id", "agent_type", "name"):
		return AgentFile
	case h.opens["messages"] == '[' && h.has("id", "agent_id"):
		return ConversationFile
	case h.opens["history"] == '[' && (h.has("trajectory") || h.has("info")):
		return Trajectory
	case h.opens["messages"] == '[':
		return Chat
	}
	if f := formatOfLine(h.fields); f != "" {
		return f
	}
	if len(h.opens) > 0 && fieldFile.MatchString(filepath.Base(path)) {
		return FieldFile
	}
	return ""
}

// formatOfLines answers what JSON Lines are: what the first line is that is known.
func formatOfLines(r io.Reader) Format {
	in := bufio.NewReaderSize(r, 1<<16)
	for range sniffed {
		line, _, err := readLine(in, mostPiece)
		var fields map[string]json.RawMessage
		if json.Unmarshal(line, &fields) == nil {
			if f := formatOfLine(fields); f != "" {
				return f
			}
		}
		if err != nil {
			return ""
		}
	}
	return ""
}

func formatOfLine(fields map[string]json.RawMessage) Format {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return fields[n] == nil })
	}
	switch {
	case textOf(fields["format"]) == ownFormat:
		return Own
	case has("jsonrpc", "method"):
		return SessionLog
	case has("type", "sessionId"), has("type", "uuid", "message"), has("type", "summary", "leafUuid"):
		return CodeLog
	case has("role", "content"), has("role", "tool_calls"), has("messages") && fields["messages"][0] == '[':
		return ChatLines
	}
	return ""
}

// mostPiece bounds a line, and an element of an array, in bytes.
const mostPiece = 64 << 20

// readLine reads up to the next line feed. Of a line of more than most bytes it
// keeps nothing.
func readLine(in *bufio.Reader, most int) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > most; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// sources finds what there is below the paths, in the order in which to import it.
// Files of directories that are nothing known are passed over; a path that is, is a
// fault.
func sources(paths []string, fault func(Fault)) (all []*source, passed []string) {
	seen := map[string]bool{}
	for _, path := range paths {
		files, dir, err := walk(path)
		if err != nil {
			fault(Fault{File: path, Err: err})
		}
		for _, f := range files {
			if seen[f] {
				continue
			}
			seen[f] = true
			src, err := detect(f)
			switch {
			case err != nil:
				fault(Fault{File: f, Err: err})
			case src.format != "":
				all = append(all, src)
			case dir && !damagedJSON(src):
				passed = append(passed, f)
			default:
				err := src.head.err
				if !damagedJSON(src) {
					err = fmt.Errorf("%w: it is no format that is known", tiers.ErrUnsupported)
				}
				fault(Fault{File: f, Err: tiers.Hint(err, "docs/CLI.md says which files import takes")})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.format.rank(), b.format.rank()), a.created.Compare(b.created))
	})
	return all, passed
}

// damagedJSON tells of a file that should be one of ours by its name and can't be
// read.
func damagedJSON(src *source) bool {
	ext := strings.ToLower(filepath.Ext(src.path))
	return src.head.err != nil && !errors.Is(src.head.err, io.EOF) && (ext == ".json" || ext == ".jsonl" || ext == ".traj")
}

func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
