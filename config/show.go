package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Setting is one value of a configuration as it may be shown.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"`          // secrets are hidden
	Source string `json:"source"`         // "config.yaml:12", "config.yaml:12 (env NAME)", "--data-dir", "Go", "built-in", "default", or a rule and its place
	Note   string `json:"note,omitempty"` // what it comes to, where that differs
}

// Settings answers every setting that has a value, in the order of the blocks,
// and at the end the policies of all known categories.
func (e *Effective) Settings() []Setting {
	var all []Setting
	walk(e.cfg, func(l leaf) {
		if l.at[0] == "categories" {
			return
		}
		s := Setting{Path: showPath(l.at), Value: shown(l), Source: e.sourceOf(l.at...)}
		switch l.path {
		case "default_store":
			if s.Value != "" && s.Value != e.DefaultStore {
				s.Note = "tier " + e.DefaultStore
			}
		case "cache.driver":
			if s.Value != e.drivers["cache"] {
				s.Note = e.drivers["cache"]
			}
		}
		if s.Value != "" {
			all = append(all, s)
		}
		if l.path == "tiers.*.driver" {
			all = append(all, e.ownSettings(l.at[1])...)
		}
	})
	for _, p := range e.Policies() {
		all = append(all, p.settings()...)
	}
	return all
}

func shown(l leaf) string {
	switch v := l.value.Interface().(type) {
	case Secret:
		if l.path == "redis.url" || l.path == "postgres.url" || l.path == "backup.webhook" || v == "" {
			return v.String()
		}
		return hidden
	case []Secret:
		if len(v) == 0 {
			return ""
		}
		return hidden
	case int:
		if v == 0 && l.def == "" {
			return "" // the driver's default
		}
	}
	return leafText(l.value)
}

// ownSettings answers what was written for the driver of an own tier. Values
// from variables and files stay unexpanded.
func (e *Effective) ownSettings(name string) (all []Setting) {
	t := e.raw.Tiers[name]
	switch {
	case t.Options != nil:
		return []Setting{{Path: "tiers." + name, Value: reflect.TypeOf(t.Options).String(), Source: "Go"}}
	case t.written == nil:
		return nil
	}
	steps := 0
	var visit func(n *yaml.Node, at []string)
	visit = func(n *yaml.Node, at []string) {
		steps++
		for n.Kind == yaml.AliasNode && n.Alias != nil {
			n = n.Alias
		}
		switch {
		case len(at) > maxDepth || steps > maxNodes: // aliases unfold
		case n.Kind == yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				visit(n.Content[i+1], with(at, n.Content[i].Value))
			}
		case n.Kind == yaml.SequenceNode:
			for i, item := range n.Content {
				visit(item, with(at, strconv.Itoa(i)))
			}
		default:
			all = append(all, Setting{Path: showPath(at), Value: redact(at[len(at)-1], n.Value), Source: position(t.written.file, n.Line)})
		}
	}
	visit(t.written.node, []string{"tiers", name})
	return all
}

// redact hides a value that looks like a secret, by its key or as a URL.
func redact(key, text string) string {
	if strings.HasPrefix(text, "${") && strings.IndexByte(text, '}') == len(text)-1 && !strings.Contains(text, ":-") {
		return text
	}
	for _, word := range []string{"secret", "password", "passwd", "passphrase", "token", "key", "credential", "dsn", "auth"} {
		if strings.Contains(strings.ToLower(key), word) {
			return hidden
		}
	}
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.User != nil || u.RawQuery != "" {
			return hidden
		}
	}
	return text
}

func (p Policy) settings() []Setting {
	ttl, over := string(Never), string(Never)
	if p.Session {
		ttl = string(UntilSessionEnds)
	} else if p.TTL > 0 {
		ttl = formatSpan(p.TTL)
	}
	if p.CompressOver > 0 {
		over = formatSize(p.CompressOver)
	}
	var all []Setting
	for _, s := range []struct{ field, value string }{
		{"tier", p.Tier},
		{"ttl", ttl},
		{"codec", p.Codec},
		{"near", strings.Join(p.Near, ", ")},
		{"near_ttl", formatSpan(p.NearTTL)},
		{"near_size", formatSize(p.NearSize)},
		{"max_value", formatSize(p.MaxValue)},
		{"compress_over", over},
		{"encrypt", strconv.FormatBool(p.Encrypt)},
	} {
		if strings.HasPrefix(s.field, "near") && len(p.Near) == 0 {
			continue
		}
		all = append(all, Setting{Path: fmt.Sprintf("categories.%s.%s", p.Category, s.field), Value: s.value, Source: p.Source[s.field]})
	}
	return all
}
