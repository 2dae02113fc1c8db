package config

import (
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/sagestore/sagestore/internal/engine"
)

// Patterns of the YAML grammar. What holds a ${...} is checked when the
// configuration is loaded.
const (
	spanPattern      = `^([1-9][0-9]*|([0-9]+(ms|s|m|h|d|w))+)$`
	sizePattern      = `^[1-9][0-9]* ?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$`
	retentionPattern = `^[1-9][0-9]*d?$`
	strategyPattern  = `^(after_tool_call|after_model_response|never|every +[1-9][0-9]*)$`
	categoryPattern  = `^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`
	namePattern      = `^[a-z0-9_-]{1,64}$`
	expandPattern    = `\$\{(env|file):`
)

// Schema answers a JSON Schema (2020-12) of the YAML form, for editors. It
// accepts everything that [Parse] accepts.
func Schema() []byte {
	s := schema{keys: make(map[string]key)}
	for _, k := range keys() {
		s.keys[k.path] = k
	}
	properties := node{"persistence": node{"$ref": "#/$defs/config", "description": "all keys may stand here instead of at the root"}}
	for _, name := range fieldNames(valueOf(&Config{})) {
		properties[name] = node{"$ref": "#/$defs/config/properties/" + name}
	}
	b, err := json.MarshalIndent(node{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "sagestore configuration",
		"type":                 "object",
		"properties":           properties,
		"additionalProperties": false,
		"if":                   node{"required": []string{"persistence"}},
		"then":                 node{"maxProperties": 1},
		"$defs":                node{"config": s.object(reflect.TypeFor[Config](), "")},
	}, "", "  ")
	if err != nil {
		panic("config: schema of plain maps: " + err.Error()) // maps of strings, numbers and lists always marshal
	}
	return append(b, '\n')
}

type node map[string]any

type schema struct{ keys map[string]key }

func (s schema) object(t reflect.Type, pattern string) node {
	properties := make(node)
	for f := range t.Fields() {
		if name := yamlName(f); name != "" {
			properties[name] = s.of(f.Type, join(pattern, name))
		}
	}
	o := node{"type": "object", "properties": properties, "additionalProperties": false}
	switch t {
	case reflect.TypeFor[Tier]():
		o["additionalProperties"] = true // the driver's
		o["required"] = []string{"driver"}
	case reflect.TypeFor[Redis](), reflect.TypeFor[Postgres]():
		o["required"] = []string{"url"}
	}
	return o
}

func (s schema) of(t reflect.Type, pattern string) node {
	switch {
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		return s.object(t.Elem(), pattern)
	case t.Kind() == reflect.Struct:
		return s.object(t, pattern)
	case t.Kind() == reflect.Map:
		names := node{"pattern": namePattern}
		switch pattern {
		case "categories":
			names = node{"pattern": categoryPattern, "maxLength": 100}
		case "encryption.keys":
			names = node{"minLength": 1}
		}
		return node{"type": "object", "propertyNames": names, "additionalProperties": s.of(t.Elem(), join(pattern, "*"))}
	}
	k := s.keys[pattern]
	n := s.leaf(t, k)
	if k.doc != "" {
		n["description"] = k.doc
	}
	if k.def != "" && pattern != "backup.enabled" {
		n["default"] = defaultValue(t, k.def)
	}
	return n
}

func defaultValue(t reflect.Type, def string) any {
	switch t.Kind() {
	case reflect.Pointer, reflect.Bool:
		return def == "true"
	case reflect.Int, reflect.Int64:
		if n, err := strconv.Atoi(def); err == nil {
			return n
		}
		return def
	default:
		return def
	}
}

func (s schema) leaf(t reflect.Type, k key) node {
	expanded := node{"type": "string", "pattern": expandPattern}
	text := node{"type": []string{"string", "number", "boolean"}} // taken as written: 0123, 1.10, yes
	grammar := func(pattern string) node {
		forms := []node{{"type": "string", "pattern": pattern}, {"type": "integer", "minimum": 1}}
		if len(k.words) > 0 {
			forms = append(forms, node{"enum": k.words})
		}
		return node{"anyOf": append(forms, expanded, node{"const": ""})}
	}
	switch t {
	case reflect.TypeFor[TTL](), reflect.TypeFor[Duration]():
		return grammar(spanPattern)
	case reflect.TypeFor[Size]():
		return grammar(sizePattern)
	case reflect.TypeFor[Retention]():
		return grammar(retentionPattern)
	case reflect.TypeFor[[]string](), reflect.TypeFor[[]Secret]():
		return node{"anyOf": []node{text, {"type": "array", "items": text}}}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Bool:
		return node{"anyOf": []node{{"type": "boolean"}, {"type": "string", "pattern": `^(true|True|TRUE|false|False|FALSE)$`}, expanded}}
	case reflect.Int:
		least := 1
		if k.def == "0" {
			least = 0
		}
		return node{"anyOf": []node{{"type": "integer", "minimum": least}, {"type": "string", "pattern": "^[0-9]+$"}, expanded}}
	default:
		return textNode(k, text, expanded)
	}
}

// textNode takes the words of a setting, or any text.
func textNode(k key, text, expanded node) node {
	switch {
	case k.path == "checkpoints.strategy":
		return node{"anyOf": []node{{"type": "string", "pattern": strategyPattern}, expanded, {"const": ""}}}
	case k.path == "postgres.schema":
		return node{"anyOf": []node{{"type": "string", "pattern": engine.SchemaPattern}, {"type": "boolean"}, expanded, {"const": ""}}}
	case len(k.words) > 0:
		return node{"anyOf": []node{{"enum": k.words}, expanded, {"const": ""}}}
	}
	return text
}
