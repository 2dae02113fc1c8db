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
	at    []string // path with the names in it
	value reflect.Value
}

// walk visits every setting that c has, in the order of the type's fields;
// absent optional blocks are left out. It changes nothing.
func walk(c *Config, visit func(l leaf)) {
	visitor{keyTable(), visit, false}.value(valueOf(c), nil, "")
}

// edit is walk for a visit that may set the values.
func edit(c *Config, visit func(l leaf)) { visitor{keyTable(), visit, true}.value(valueOf(c), nil, "") }

func valueOf(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() }

func keyTable() map[string]key {
	known := make(map[string]key)
	for _, k := range keys() {
		known[k.path] = k
	}
	return known
}

type visitor struct {
	known map[string]key
	visit func(l leaf)
	store bool // entries of maps, which can't be set in place
}

func (w visitor) value(v reflect.Value, at []string, pattern string) {
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		if !v.IsNil() {
			w.value(v.Elem(), at, pattern)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if name := yamlName(v.Type().Field(i)); name != "" {
				w.value(v.Field(i), with(at, name), join(pattern, name))
			}
		}
	case v.Kind() == reflect.Map:
		names := make([]string, 0, v.Len())
		for _, name := range v.MapKeys() {
			names = append(names, name.String())
		}
		slices.Sort(names)
		for _, name := range names {
			entry := reflect.New(v.Type().Elem()).Elem()
			entry.Set(v.MapIndex(reflect.ValueOf(name)))
			w.value(entry, with(at, name), join(pattern, "*"))
			if w.store {
				v.SetMapIndex(reflect.ValueOf(name), entry)
			}
		}
	default:
		w.visit(leaf{key: w.known[pattern], at: at, value: v})
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
	d.Backup.Recipients, d.Backup.Identities = slices.Clone(c.Backup.Recipients), slices.Clone(c.Backup.Identities)
	d.Backup.SigningKeysOld = slices.Clone(c.Backup.SigningKeysOld)
	d.Backup.OnSuccess, d.Backup.OnFailure = slices.Clone(c.Backup.OnSuccess), slices.Clone(c.Backup.OnFailure)
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
