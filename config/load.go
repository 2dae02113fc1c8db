package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gopkg.in/yaml.v3"
)

// maxFile bounds the bytes of a configuration, which may be a part of the app's
// own file.
const maxFile = 4 << 20

// Load reads a YAML file. The keys sit at its root or under "persistence", or
// where [At] says. An error is [Errors], all faults at once, in the order of the
// file.
func Load(path string, opts ...Option) (*Config, error) {
	b, err := readFile(path, maxFile)
	if err != nil {
		return nil, &Error{File: path, Problem: readProblem(err), Err: err}
	}
	return Parse(b, append([]Option{Source(path)}, opts...)...)
}

// readRegular reads a file that is one: a pipe would be waited for, and a device has no
// end. Links are followed.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("it is %s: name a regular file", whatIs(st.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return readAll(f, limit)
}

func whatIs(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no file"
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

// readAll reads a file to its end and closes it.
func readAll(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("has more than %d bytes", limit)
	}
	return b, nil
}

// readProblem is what an error says without repeating the path.
func readProblem(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return "can't be read: " + err.Error()
}

// Parse reads YAML from memory, as [Load] does.
func Parse(b []byte, opts ...Option) (*Config, error) {
	o := gather(opts)
	c := &Config{origin: &origin{file: o.source, at: make(map[string]place)}}
	f := &faults{origin: c.origin}
	d := &decoder{file: o.source, dir: directory(o.source), lookup: o.lookup, origin: c.origin, faults: f}
	root := d.document(b)
	if root == nil {
		if err := f.err(); err != nil {
			return nil, err
		}
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	if o.at != "" {
		root = d.descend(root, strings.Split(o.at, "."))
	} else {
		root = d.unwrap(root)
	}
	if root != nil {
		d.decode(root, valueOf(c), nil, "")
	}
	if o.restored != "" {
		c.liesBelow(o.restored)
	}
	if o.dataDir != "" {
		c.DataDir = newEffective(c, o).cfg.DataDir
		c.origin.at[pathKey([]string{"data_dir"})] = place{text: c.DataDir, option: true}
	}
	d.enableBackup(c)
	e := newEffective(c, o)
	e.check(f)
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// directory answers where relative paths of a file begin; "" is the working
// directory.
func directory(source string) string {
	if source == "" || strings.Contains(source, "://") {
		return ""
	}
	dir, err := filepath.Abs(filepath.Dir(source))
	if err != nil {
		return ""
	}
	return dir
}

// document answers the root of the only document, or nil when it is empty or
// broken.
func (d *decoder) document(b []byte) *yaml.Node {
	if len(b) > maxFile {
		d.fault(nil, nil, fmt.Sprintf("has more than %d bytes", maxFile))
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		d.syntax(b, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		d.fault(&second, nil, "a second document begins here: a configuration is one")
	case !errors.Is(err, io.EOF):
		d.syntax(b, err)
	}
	root := doc.Content[0]
	if isNull(root) {
		return nil
	}
	return root
}

// syntax reports what the YAML parser says. Names that it quotes from the file
// are left out: a password that begins with * looks like an alias to it.
func (d *decoder) syntax(b []byte, err error) {
	problem := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if number, rest, is := strings.Cut(strings.TrimPrefix(problem, "line "), ": "); is && strings.HasPrefix(problem, "line ") {
		line, _ = strconv.Atoi(number)
		problem = rest
	}
	if _, anchor, is := strings.Cut(problem, "unknown anchor '"); is {
		anchor, _, _ = strings.Cut(anchor, "'")
		before, _, _ := bytes.Cut(b, []byte("*"+anchor))
		line = 1 + bytes.Count(before, []byte("\n"))
		problem = "an alias (*name) without an anchor: quote a value that begins with *"
	} else if strings.ContainsAny(problem, "'\"`") {
		problem = "look for a value that needs quotes"
	}
	d.fault(&yaml.Node{Line: line}, nil, "is no valid YAML: "+problem)
}

// unwrap answers the mapping with the keys: the root, or its key persistence.
func (d *decoder) unwrap(root *yaml.Node) *yaml.Node {
	var wrapped *yaml.Node
	pairs, ok := d.pairs(root, nil)
	if !ok {
		return nil
	}
	for _, p := range pairs {
		if p.name == "persistence" {
			wrapped = p.value
		}
	}
	if wrapped == nil {
		return root
	}
	names := fieldNames(valueOf(&Config{}))
	for _, p := range pairs {
		switch {
		case p.name == "persistence":
		case contains(names, p.name):
			d.fault(p.key, []string{p.name}, "stands beside persistence: move it below, where the other keys are")
		default:
			d.fault(p.key, []string{p.name}, `is not read, since the keys are under persistence: remove it, or read a part of the file with config.At("persistence")`)
		}
	}
	return wrapped
}

// descend answers the sub-tree at a path.
func (d *decoder) descend(n *yaml.Node, path []string) *yaml.Node {
	for i, name := range path {
		pairs, ok := d.pairs(n, path[:i])
		if !ok {
			return nil
		}
		n = nil
		var names []string
		for _, p := range pairs {
			names = append(names, p.name)
			if p.name == name {
				n = p.value
			}
		}
		if n == nil {
			d.fault(nil, path[:i+1], "is not in the file"+didYouMean(name, names))
			return nil
		}
	}
	return n
}

// enableBackup makes a backup block that does not say enabled an enabled one.
func (d *decoder) enableBackup(c *Config) {
	block, has := c.origin.find("backup")
	if _, says := c.origin.find("backup", "enabled"); has && !says {
		c.Backup.Enabled = true
		c.origin.at[pathKey([]string{"backup", "enabled"})] = place{line: block.line, column: block.column, text: "true"}
	}
}
