package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// leaf is one setting of a Config, with its place in the key table.
type leaf struct {
	key
	at    []string      // path with the names in it
	value reflect.Value // settable
}

// walk visits every setting that c has, in the order of the key table's blocks;
// absent optional blocks are left out.
func walk(c *Config, visit func(l leaf)) {
	known := make(map[string]key)
	for _, k := range keys() {
		known[k.path] = k
	}
	walkValue(reflect.ValueOf(c).Elem(), nil, "", func(pattern string, at []string, v reflect.Value) {
		visit(leaf{key: known[pattern], at: at, value: v})
	})
}

func walkValue(v reflect.Value, at []string, pattern string, visit func(string, []string, reflect.Value)) {
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		if !v.IsNil() {
			walkValue(v.Elem(), at, pattern, visit)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if name := yamlName(v.Type().Field(i)); name != "" {
				walkValue(v.Field(i), append(slices.Clip(at), name), join(pattern, name), visit)
			}
		}
	case v.Kind() == reflect.Map:
		entries := make(map[string]reflect.Value, v.Len())
		for it := v.MapRange(); it.Next(); {
			entries[it.Key().String()] = it.Value()
		}
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			entry := reflect.New(v.Type().Elem()).Elem() // entries of a map can't be set in place
			entry.Set(entries[name])
			walkValue(entry, append(slices.Clip(at), name), join(pattern, "*"), visit)
			v.SetMapIndex(reflect.ValueOf(name), entry)
		}
	default:
		visit(pattern, at, v)
	}
}

func join(pattern, name string) string {
	if pattern == "" {
		return name
	}
	return pattern + "." + name
}

// yamlName answers the key of a field: its yaml tag, else its name in
// snake_case; "" when it is not a setting.
func yamlName(f reflect.StructField) string {
	if !f.IsExported() {
		return ""
	}
	tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	switch tag {
	case "-":
		return ""
	case "":
		return snake(f.Name)
	}
	return tag
}

// snake turns a Go name into a YAML key: BasePath is base_path, URL is url,
// TTLDefault is ttl_default.
func snake(name string) string {
	rs := []rune(name)
	var b strings.Builder
	for i, r := range rs {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// clone copies c deeply, but for the options of own tiers, which are their
// driver's.
func (c *Config) clone() *Config {
	d := *c
	d.Tiers, d.Categories = maps.Clone(c.Tiers), maps.Clone(c.Categories)
	for name, k := range d.Categories {
		k.Near = slices.Clone(k.Near)
		k.Encrypt = clonePointer(k.Encrypt)
		d.Categories[name] = k
	}
	d.Postgres, d.Redis = clonePointer(c.Postgres), clonePointer(c.Redis)
	if d.Redis != nil {
		d.Redis.Index = clonePointer(d.Redis.Index)
	}
	d.Checkpoints.Enabled = clonePointer(c.Checkpoints.Enabled)
	d.Checkpoints.BeforeOperations = clonePointer(c.Checkpoints.BeforeOperations)
	d.Backup.Recipients = slices.Clone(c.Backup.Recipients)
	d.Encryption.Keys = maps.Clone(c.Encryption.Keys)
	return &d
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
