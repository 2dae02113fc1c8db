package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds of what aliases may unfold to.
const (
	maxNodes = 100_000
	maxDepth = 64
)

// decoder turns YAML nodes into Go values, strictly. It reports faults and goes
// on, so that all are found.
type decoder struct {
	file, dir string
	lookup    func(string) (string, bool)
	origin    *origin
	faults    *faults
	foreign   bool // the options of a driver, not in the key table
	nodes     int
	known     map[string]key
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// fault reports a problem at a node; nil is nowhere in particular.
func (d *decoder) fault(n *yaml.Node, at []string, problem string) {
	e := &Error{File: d.file, Path: showPath(at), Problem: problem}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	d.faults.found = append(d.faults.found, e)
}

// broken reports a problem that leaves a key without a value.
func (d *decoder) broken(n *yaml.Node, at []string, problem string) {
	d.fault(n, at, problem)
	d.faults.broken = append(d.faults.broken, showPath(at))
}

// showPath joins a path for a message. A key that is a URL by mistake may hold
// a password.
func showPath(at []string) string {
	shown := slices.Clone(at)
	for i, name := range shown {
		if strings.ContainsAny(name, "@\n") || strings.Contains(name, "://") {
			shown[i] = hidden
		} else if len(name) > 200 {
			shown[i] = name[:200] + "..."
		}
	}
	return strings.Join(shown, ".")
}

// enter follows an alias and counts the node; ok is false once there were too
// many, which was reported then.
func (d *decoder) enter(n *yaml.Node, at []string) (resolved *yaml.Node, ok bool) {
	for depth := 0; n.Kind == yaml.AliasNode && n.Alias != nil && depth < maxDepth; depth++ {
		n = n.Alias
	}
	d.nodes++
	if d.nodes == maxNodes || d.nodes < maxNodes && len(at) > maxDepth {
		d.nodes = maxNodes
		d.broken(n, at, fmt.Sprintf("is nested too deeply, or its aliases unfold to more than %d values", maxNodes))
	}
	return n, d.nodes < maxNodes && n.Kind != yaml.AliasNode
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a block of keys"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

type pair struct {
	name       string
	key, value *yaml.Node
}

// pairs answers the keys and values of a mapping, with merged ones (<<) behind
// its own.
func (d *decoder) pairs(n *yaml.Node, at []string) (ps []pair, ok bool) {
	n, ok = d.enter(n, at)
	switch {
	case !ok:
		return nil, false
	case isNull(n):
		d.broken(n, at, "has no value: remove the key, or write {}")
		return nil, false
	case n.Kind != yaml.MappingNode:
		d.broken(n, at, "is "+kindOf(n)+"; it takes a block of keys")
		return nil, false
	}
	lines := make(map[string]int)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, _ := d.enter(n.Content[i], at)
		switch {
		case k.Kind != yaml.ScalarNode:
			d.broken(k, at, "has a key that is "+kindOf(k)+"; a key is a word")
		case k.ShortTag() == "!!merge":
			merges = append(merges, n.Content[i+1])
		case lines[k.Value] > 0:
			d.fault(k, with(at, k.Value), fmt.Sprintf("repeats the key of line %d", lines[k.Value]))
		default:
			lines[k.Value] = k.Line
			ps = append(ps, pair{k.Value, k, n.Content[i+1]})
		}
	}
	for _, m := range merges {
		ps = d.merge(ps, lines, m, at, 0)
	}
	return ps, true
}

// merge appends the keys of a merged mapping that are not there yet.
func (d *decoder) merge(ps []pair, lines map[string]int, n *yaml.Node, at []string, depth int) []pair {
	n, ok := d.enter(n, at)
	switch {
	case !ok || depth > maxDepth:
	case n.Kind == yaml.SequenceNode:
		for _, m := range n.Content {
			ps = d.merge(ps, lines, m, at, depth+1)
		}
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, _ := d.enter(n.Content[i], at)
			if k.ShortTag() == "!!merge" {
				ps = d.merge(ps, lines, n.Content[i+1], at, depth+1)
			} else if lines[k.Value] == 0 {
				lines[k.Value] = k.Line
				ps = append(ps, pair{k.Value, k, n.Content[i+1]})
			}
		}
	default:
		d.broken(n, with(at, "<<"), "is "+kindOf(n)+"; it takes a block of keys")
	}
	return ps
}

func with(at []string, name string) []string { return append(slices.Clip(at), name) }

func fieldNames(v reflect.Value) (names []string) {
	for i := range v.NumField() {
		if name := yamlName(v.Type().Field(i)); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// decode fills v from a node. pattern is the path in the key table.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, at []string, pattern string) {
	switch {
	case v.Type() == reflect.TypeFor[Tier]():
		d.tier(n, v, at)
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.decode(n, p.Elem(), at, pattern)
		v.Set(p)
	case v.Kind() == reflect.Struct:
		d.block(n, v, at, pattern)
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		ps, _ := d.pairs(n, at)
		v.Set(reflect.MakeMap(v.Type()))
		for _, p := range ps {
			entry := reflect.New(v.Type().Elem()).Elem()
			d.note(p, with(at, p.name))
			d.decode(p.value, entry, with(at, p.name), join(pattern, "*"))
			v.SetMapIndex(reflect.ValueOf(p.name).Convert(v.Type().Key()), entry)
		}
	case v.Kind() == reflect.Slice:
		d.list(n, v, at, pattern)
	default:
		d.scalar(n, v, at, pattern)
	}
}

// note remembers where a key was written.
func (d *decoder) note(p pair, at []string) {
	if !d.foreign { // the options of a driver are read again and again
		d.origin.at[pathKey(at)] = place{line: p.key.Line, column: p.key.Column}
	}
}

func (d *decoder) block(n *yaml.Node, v reflect.Value, at []string, pattern string) {
	ps, _ := d.pairs(n, at)
	for _, p := range ps {
		field := fieldOf(v, p.name)
		if !field.IsValid() {
			d.unknown(p, v, at)
			continue
		}
		d.note(p, with(at, p.name))
		d.decode(p.value, field, with(at, p.name), join(pattern, p.name))
	}
}

func (d *decoder) unknown(p pair, v reflect.Value, at []string) {
	problem := "is not a key"
	if len(at) > 0 {
		problem += " of " + showPath(at)
	}
	names := fieldNames(v)
	if len(at) == 0 && p.name != "persistence" {
		names = append(names, "persistence")
	}
	d.fault(p.key, with(at, p.name), problem+didYouMean(p.name, names))
}

// tier takes the driver's name; what stands beside it is for the driver.
func (d *decoder) tier(n *yaml.Node, v reflect.Value, at []string) {
	ps, ok := d.pairs(n, at)
	if !ok {
		return
	}
	rest := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	var t Tier
	for _, p := range ps {
		d.note(p, with(at, p.name))
		if p.name == "driver" {
			d.decode(p.value, reflect.ValueOf(&t.Driver).Elem(), with(at, "driver"), "tiers.*.driver")
			continue
		}
		rest.Content = append(rest.Content, p.key, p.value)
	}
	t.written = &block{node: rest, file: d.file, dir: d.dir}
	v.Set(reflect.ValueOf(t))
}

// list takes a sequence, or a single value as a list of one.
func (d *decoder) list(n *yaml.Node, v reflect.Value, at []string, pattern string) {
	n, ok := d.enter(n, at)
	if !ok {
		return
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	out := reflect.MakeSlice(v.Type(), 0, min(len(items), 16))
	for _, item := range items {
		element := reflect.New(v.Type().Elem()).Elem()
		d.decode(item, element, at, pattern)
		out = reflect.Append(out, element)
	}
	v.Set(out)
	d.remember(at, v, "")
}

// remember notes a value, to notice later that Go code changed it.
func (d *decoder) remember(at []string, v reflect.Value, expanded string) {
	if d.foreign {
		return
	}
	p := d.origin.at[pathKey(at)]
	p.text = leafText(v)
	if expanded != "" {
		p.expanded = expanded
	}
	d.origin.at[pathKey(at)] = p
}

func (d *decoder) isFile(pattern string, at []string) bool {
	if !d.foreign {
		if d.known == nil {
			d.known = keyTable()
		}
		return d.known[pattern].file
	}
	name := at[len(at)-1]
	return slices.ContainsFunc([]string{"path", "dir", "file"}, func(end string) bool {
		return name == end || strings.HasSuffix(name, "_"+end)
	})
}

// scalar fills v from a single value, which stays the text that was written
// until the type of v is known.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, at []string, pattern string) {
	n, ok := d.enter(n, at)
	if !ok {
		return
	}
	switch file := v.Kind() == reflect.String && d.isFile(pattern, at); {
	case isNull(n) && n.Value == "~" && file:
		d.broken(n, at, `has no value, since a bare ~ is null in YAML: write "~/" for the home directory`)
		return
	case isNull(n):
		d.broken(n, at, "has no value: remove the key, or quote a value that begins with # or is null or ~")
		return
	case n.Kind != yaml.ScalarNode:
		d.broken(n, at, "is "+kindOf(n)+"; it takes a single value")
		return
	case n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != "!!str":
		d.broken(n, at, "has a tag: quote a value that begins with !")
		return
	}
	text, expanded, problem := expand(n.Value, d.dir, d.lookup, v.Type() == reflect.TypeFor[Secret]())
	if problem != "" {
		d.broken(n, at, problem)
		return
	}
	if v.Kind() == reflect.String && d.isFile(pattern, at) {
		if text, problem = d.path(text); problem != "" {
			d.broken(n, at, problem)
			return
		}
	}
	if problem := set(v, text); problem != "" {
		if expanded != "" {
			problem = "the value of " + expanded + " is not possible here; it takes " + typeName(v)
		}
		d.broken(n, at, problem)
		return
	}
	d.remember(at, v, expanded)
}

// path joins a relative path with the file's directory. In the options of a
// driver, which nobody else looks at, "~" is expanded too.
func (d *decoder) path(p string) (joined, problem string) {
	switch {
	case !isPath(p) || filepath.IsAbs(p):
		return p, ""
	case isHome(p) && d.foreign:
		home, err := homeDir(d.lookup)
		if err != nil {
			return "", err.Error()
		}
		return filepath.Join(home, p[1:]), ""
	case strings.HasPrefix(p, "~"):
		return p, ""
	}
	return filepath.Join(d.dir, p), ""
}
