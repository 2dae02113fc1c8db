package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// origin remembers where the values of a Config were written.
type origin struct {
	file string
	at   map[string]place // by the key's path, see pathKey
}

// place is where one value was written.
type place struct {
	line, column int
	text         string // the value as decoded, to notice that Go code changed it since
	expanded     string // "env NAME" or "file PATH" when the value came from there
	option       bool   // not written but given by the caller
}

// block is the part of a document that only a driver can read.
type block struct {
	node *yaml.Node
	file string
	dir  string // relative paths are relative to it
}

// pathKey makes a path comparable; names of categories hold dots themselves.
func pathKey(path []string) string { return strings.Join(path, "\x00") }

func (o *origin) find(path ...string) (p place, ok bool) {
	if o == nil {
		return place{}, false
	}
	p, ok = o.at[pathKey(path)]
	return p, ok
}

// near answers where a key was written, or the nearest block around it; 0 is
// nowhere.
func (o *origin) near(path []string) (line, column int) {
	for n := len(path); n > 0; n-- {
		if p, ok := o.find(path[:n]...); ok && p.line > 0 {
			return p.line, p.column
		}
	}
	return 0, 0
}

func position(file string, line int) string {
	switch {
	case line == 0:
		return file
	case file == "":
		return "line " + strconv.Itoa(line)
	}
	return file + ":" + strconv.Itoa(line)
}

// leafText is the text of a setting, by which a later change is noticed.
func leafText(v reflect.Value) string {
	switch t := v.Interface().(type) {
	case Secret:
		return string(t)
	case *bool:
		if t == nil {
			return ""
		}
		return strconv.FormatBool(*t)
	case []string:
		return strings.Join(t, ", ")
	case []Secret:
		texts := make([]string, len(t))
		for i, s := range t {
			texts[i] = string(s)
		}
		return strings.Join(texts, "\x00")
	default:
		return fmt.Sprint(t)
	}
}

// sourceOf says where the value of a setting comes from.
func (e *Effective) sourceOf(path ...string) string {
	return cmp.Or(e.sources[pathKey(path)], "default")
}

func (e *Effective) sourceOfLeaf(l leaf) string {
	p, written := e.raw.origin.find(l.at...)
	switch {
	case l.path == "data_dir" && (e.dataDir != "" || p.option):
		return "--data-dir"
	case written && p.text == leafText(l.value):
		source := position(e.raw.origin.file, p.line)
		if p.expanded != "" {
			source += " (" + p.expanded + ")"
		}
		return source
	case !l.value.IsZero():
		return "Go"
	}
	return "default"
}
