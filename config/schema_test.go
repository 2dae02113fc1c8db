package config

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// validator checks a value against the part of JSON Schema that Schema uses,
// and fails the test for a keyword that it does not know.
type validator struct {
	t    *testing.T
	root map[string]any
}

func newValidator(t *testing.T) validator {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	return validator{t, root}
}

func (v validator) check(s map[string]any, at string, value any) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, at+": "+fmt.Sprintf(format, args...)) }
	object, isObject := value.(map[string]any)
	text, isText := value.(string)
	number, isNumber := value.(float64)
	for keyword, want := range s {
		switch keyword {
		case "$schema", "$defs", "title", "description", "default", "then":
		case "$ref":
			problems = append(problems, v.check(v.resolve(as[string](want)), at, value)...)
		case "type":
			if !slices.ContainsFunc(asList(want), func(name any) bool { return hasType(value, as[string](name)) }) {
				bad("%T is not %v", value, want)
			}
		case "const":
			if value != want {
				bad("is not %v", want)
			}
		case "enum":
			if !slices.Contains(as[[]any](want), value) {
				bad("%v is none of %v", value, want)
			}
		case "pattern":
			if isText && !regexp.MustCompile(as[string](want)).MatchString(text) {
				bad("%q does not match %s", text, want)
			}
		case "minLength":
			if isText && len(text) < int(as[float64](want)) {
				bad("is too short")
			}
		case "maxLength":
			if isText && len(text) > int(as[float64](want)) {
				bad("is too long")
			}
		case "minimum":
			if isNumber && number < as[float64](want) {
				bad("%v is less than %v", number, want)
			}
		case "anyOf":
			var all []string
			for _, option := range as[[]any](want) {
				p := v.check(as[map[string]any](option), at, value)
				if len(p) == 0 {
					all = nil
					break
				}
				all = append(all, p...)
			}
			problems = append(problems, all...)
		case "items":
			if list, ok := value.([]any); ok {
				for i, item := range list {
					problems = append(problems, v.check(as[map[string]any](want), fmt.Sprintf("%s[%d]", at, i), item)...)
				}
			}
		case "required":
			for _, name := range as[[]any](want) {
				if _, has := object[as[string](name)]; isObject && !has {
					bad("lacks %s", name)
				}
			}
		case "maxProperties":
			if len(object) > int(as[float64](want)) {
				bad("has too many keys")
			}
		case "if":
			if then, ok := s["then"].(map[string]any); ok && len(v.check(as[map[string]any](want), at, value)) == 0 {
				problems = append(problems, v.check(then, at, value)...)
			}
		case "properties", "additionalProperties", "propertyNames": // below
		default:
			v.t.Fatalf("the validator does not know %q", keyword)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, field := range object {
		if names, ok := s["propertyNames"].(map[string]any); ok {
			problems = append(problems, v.check(names, at+"."+name, name)...)
		}
		if p, known := properties[name]; known {
			problems = append(problems, v.check(as[map[string]any](p), at+"."+name, field)...)
		} else if more, ok := s["additionalProperties"].(map[string]any); ok {
			problems = append(problems, v.check(more, at+"."+name, field)...)
		} else if s["additionalProperties"] == false {
			bad("has no key %s", name)
		}
	}
	return problems
}

func (v validator) resolve(ref string) map[string]any {
	at := v.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		next, ok := at[part].(map[string]any)
		if !ok {
			v.t.Fatalf("%s leads nowhere", ref)
		}
		at = next
	}
	return at
}

// as is a type assertion; a schema of another shape panics here.
func as[T any](v any) T { return v.(T) }

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func hasType(value any, name string) bool {
	switch v := value.(type) {
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	}
	return false
}

// validate checks a YAML text as an editor would.
func (v validator) validate(text []byte) []string {
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return []string{err.Error()}
	}
	b, err := json.Marshal(value)
	if err != nil {
		return []string{err.Error()}
	}
	if err := json.Unmarshal(b, &value); err != nil {
		v.t.Fatal(err)
	}
	return v.check(v.root, "", value)
}

func TestTheSchemaTakesWhatLoads(t *testing.T) {
	v := newValidator(t)
	texts := map[string]string{
		"every form of a value": `
data_dir: "${env:DIR:-/x}"
default_store: postgres
compress_over: 4KiB
memory: {budget: 1048576, overflow: none}
cache: {driver: auto, journal_limit: "64 MiB"}
database: {driver: postgres}
postgres: {url: postgres://h/d, password: 0123, pool: 4, pooler: true}
redis: {url: "redis://:${env:PW:-x}@h", prefix: 1.10, ttl_default: 3600, index: false, username: yes}
file: {format: msgpack}
tiers: {archive: {driver: s3, anything: [1, {x: y}]}}
categories:
  app.Drafts: {tier: archive, ttl: session, codec: gob, near: memory, near_ttl: 1h30m, max_value: 1GiB, encrypt: "true", compress_over: never}
  app.notes: {near: [memory], ttl: "${env:TTL:-2w}", tier: database}
session: {idle_limit: never}
checkpoints: {enabled: true, interval: 300, max: 5, strategy: every 3}
backup: {enabled: true, interval: weekly, at: "04:30", retention: 30d, keep: {daily: 0, weekly: 4}, recipients: age1crkpp6awuxm9dhqvepnnrme53rnsf0t8dp0luqx4l4zq73e46sps9uwf9f, jitter: none, identities: ["${env:ID:-AGE-SECRET-KEY-1XTEFK45AZWAEXF8QZEY8WX3Y09J60S3RRR523EZE0R27Y0E095HS7APPSH}"], signing_key: 0123456789abcdef, signing_keys_old: [fedcba9876543210], rehearse: monthly, temp: /tmp, on_failure: mail-admin, on_success: [touch, /run/backup]}
encryption: {current: "", keys: {"2026": "` + strings.Repeat("ab", 32) + `"}}
`,
	}
	for _, file := range []string{"testdata/reference.yaml", "../config.example.yaml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(b)
	}
	for name, text := range texts {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s does not load: %v", name, err)
		}
		if problems := v.validate([]byte(text)); len(problems) > 0 {
			t.Errorf("%s: the schema says\n%s", name, strings.Join(problems, "\n"))
		}
	}
}

func TestTheSchemaRefusesWhatIsWrongByItself(t *testing.T) {
	v := newValidator(t)
	for _, text := range []string{
		"default_stor: memory",
		"memory: {budgt: 1}",
		"memory: 256MiB",
		"memory: {budget: 64M}",
		"memory: {budget: 0}",
		"memory: {overflow: spil}",
		"redis: {}",
		"redis: {url: redis://h, index: no way}",
		"session: {idle_limit: session}",
		"tiers: {archive: {}}",
		"tiers: {Big One: {driver: s3}}",
		"categories: {a: {tier: file, ttl: -5}}",
		"categories: {a: {tier: file, ttl: 1x}}",
		"categories: {a: {tier: file, tll: 1h}}",
		"categories: {a..b: {tier: file}}",
		"checkpoints: {max: 0}",
		"checkpoints: {strategy: every 0}",
		"checkpoints: {interval: never}",
		"backup: {interval: dayly}",
		"backup: {retention: 0}",
		"backup: {keep: {daily: -1}}",
		"backup: {keep: {last: 0}}",
		"backup: {rehearse: sometimes}",
		"backup: {jitter: -1m}",
		"data_dir: [a]",
		"- a",
		"persistence: {default_store: file}\nredis: {url: redis://h}",
		"persistence: {persistence: {}}",
	} {
		if len(v.validate([]byte(text))) == 0 {
			t.Errorf("the schema takes %q", text)
		}
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q loads", text)
		}
	}
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		switch strings.TrimSuffix(filepath.Base(file), ".yaml") {
		case "contradictions", "engines_without_blocks", "expansions", "ports", "the_home_of_another": // what only the whole tells, or what is inside a text
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.validate(b)) == 0 {
			t.Errorf("the schema takes %s", file)
		}
	}
}

// A default that an editor offers must be one that loads.
func TestDefaultsInTheSchemaAreValid(t *testing.T) {
	v := newValidator(t)
	found := 0
	var visit func(at string, s map[string]any)
	visit = func(at string, s map[string]any) {
		if def, has := s["default"]; has {
			found++
			if problems := v.check(s, at, def); len(problems) > 0 {
				t.Error(problems)
			}
		}
		for k, x := range s {
			if m, ok := x.(map[string]any); ok {
				visit(at+"/"+k, m)
			}
		}
	}
	visit("", v.root)
	if found < 20 {
		t.Errorf("only %d defaults", found)
	}
}

func TestTheSchemaKnowsTheKeysOfTheTypes(t *testing.T) {
	v := newValidator(t)
	config := v.resolve("#/$defs/config/properties")
	if got, want := len(config), len(fieldNames(reflect.ValueOf(Config{}))); got != want {
		t.Errorf("%d keys, want %d", got, want)
	}
	for _, name := range fieldNames(reflect.ValueOf(Config{})) {
		if config[name] == nil || v.resolve("#/properties/" + name)["$ref"] == nil {
			t.Errorf("lacks %s", name)
		}
	}
}
