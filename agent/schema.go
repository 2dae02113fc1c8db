package agent

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// schemaOf answers the JSON Schema of a Go type as encoding/json writes it.
func schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	case reflect.TypeFor[tiers.Version]():
		return map[string]any{"type": "integer", "description": "of what is stored; 0 or left out: it is to be created"}
	case reflect.TypeFor[Role]():
		return words(Roles())
	case reflect.TypeFor[CallStatus]():
		return words(CallStatuses())
	case reflect.TypeFor[AttachmentKind]():
		return words(AttachmentKinds())
	case reflect.TypeFor[Kind]():
		return words(Kinds())
	case reflect.TypeFor[Mode]():
		return words(Modes())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		properties, required := make(map[string]any), []string{}
		fields(t, properties, &required)
		return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	case reflect.Interface:
		return map[string]any{}
	default:
		return map[string]any{"type": "integer"}
	}
}

func words[W ~string](all []W) map[string]any { return map[string]any{"type": "string", "enum": all} }

// fields adds the properties of a struct; those without omitempty are required.
func fields(t reflect.Type, properties map[string]any, required *[]string) {
	for f := range t.Fields() {
		if f.Anonymous {
			fields(f.Type, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		s := schemaOf(f.Type)
		if d := f.Tag.Get("doc"); d != "" {
			s["description"] = d
		}
		properties[name] = s
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}
