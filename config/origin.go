package config

import (
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
}

// block is the part of a document that only a driver can read.
type block struct {
	node *yaml.Node
	file string
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

func position(file string, line int) string {
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}
