package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// maxSecret bounds what ${file:PATH} may bring in.
const maxSecret = 64 << 10

// piece is a part of a scalar: text as it stands, or something to be expanded.
type piece struct {
	literal        string
	kind, argument string // env or file, and what follows the colon
}

// expand replaces ${env:NAME}, ${env:NAME:-default}, ${file:PATH} and $$ in a
// scalar. from names what was expanded. Within the user part of a URL, a value
// is escaped, so that any password works.
func expand(text, dir string, lookup func(string) (string, bool), isURL bool) (out, from, problem string) {
	if !strings.Contains(text, "$") {
		return text, "", ""
	}
	pieces, problem := cutPieces(text)
	if problem != "" {
		return "", "", problem
	}
	var b strings.Builder
	var names []string
	for i, p := range pieces {
		if p.kind == "" {
			b.WriteString(p.literal)
			continue
		}
		value, name, problem := p.value(dir, lookup)
		if problem != "" {
			return "", "", problem
		}
		names = append(names, name)
		if isURL && inUser(pieces, i) {
			value = strings.TrimPrefix(url.UserPassword("", value).String(), ":")
		}
		b.WriteString(value)
	}
	return b.String(), strings.Join(names, ", "), ""
}

const expansionForms = "write ${env:NAME}, ${env:NAME:-default} or ${file:PATH}, and $$ for a dollar sign"

func cutPieces(text string) (pieces []piece, problem string) {
	literal := func(s string) { pieces = append(pieces, piece{literal: s}) }
	for text != "" {
		before, after, found := strings.Cut(text, "$")
		literal(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "$"):
			literal("$")
			text = after[1:]
		case strings.HasPrefix(after, "{"):
			inner, rest, closed := strings.Cut(after[1:], "}")
			kind, argument, ok := strings.Cut(inner, ":")
			switch {
			case !closed:
				return nil, "a ${ is not closed: " + expansionForms
			case strings.Contains(inner, "${"):
				return nil, "a ${ stands inside another: " + expansionForms
			case !ok || kind != "env" && kind != "file" || argument == "":
				return nil, "a ${...} is not understood: " + expansionForms
			}
			pieces = append(pieces, piece{kind: kind, argument: argument})
			text = rest
		default:
			literal("$")
			text = after
		}
	}
	return pieces, ""
}

func (p piece) value(dir string, lookup func(string) (string, bool)) (value, name, problem string) {
	if p.kind == "env" {
		variable, def, hasDef := strings.Cut(p.argument, ":-")
		name = "env " + variable
		value, set := lookup(variable)
		switch {
		case hasDef && value == "":
			return def, name, ""
		case !set:
			return "", "", fmt.Sprintf("the variable %s is not set: set it, or write ${env:%s:-default}", variable, variable)
		}
		return value, name, ""
	}
	name = "file " + p.argument
	path := p.argument
	switch {
	case isHome(path):
		home, err := homeDir(lookup)
		if err != nil {
			return "", "", err.Error()
		}
		path = filepath.Join(home, path[1:])
	case !filepath.IsAbs(path):
		path = filepath.Join(dir, path)
	}
	b, err := readRegular(path, maxSecret)
	if err != nil {
		return "", "", fmt.Sprintf("the file %s %s", p.argument, readProblem(err))
	}
	value = strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	return value, name, ""
}

// inUser tells whether piece i lies between the scheme of a URL and its "@".
func inUser(pieces []piece, i int) bool {
	var before, after strings.Builder
	for j, p := range pieces {
		switch {
		case j < i:
			before.WriteString(p.literal)
		case j > i:
			after.WriteString(p.literal)
		}
	}
	_, authority, ok := strings.Cut(before.String(), "://")
	user, _, at := strings.Cut(after.String(), "@")
	return ok && at && !strings.ContainsAny(authority, "/?#@") && !strings.ContainsAny(user, "/?#")
}
