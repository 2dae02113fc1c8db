package config

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/tiers"
)

// Options answers what fills a driver's option struct with the settings of a
// tier, for [tiers.Env]: a pointer to a struct of plain fields, whose names in
// snake_case, or yaml tags, are the keys. Sizes become int64 bytes, durations
// [time.Duration]. Only settings with a value are touched. A setting that was
// written and that the driver does not know is an error. more are values that
// the caller adds; the driver may lack those.
func (e *Effective) Options(tier string, more map[string]string) func(into any) error {
	return func(into any) error {
		v := reflect.ValueOf(into)
		if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return fmt.Errorf("options of tier %s: want a pointer to a struct, not %T: %w", tier, into, tiers.ErrType)
		}
		f := faults{origin: e.raw.origin}
		if _, ours := e.drivers[tier]; ours {
			for _, s := range e.settingsOf(tier) {
				s.fill(&f, v.Elem(), tier)
			}
		} else {
			e.fillOwn(&f, tier, v)
		}
		for name, text := range more {
			if field := fieldOf(v.Elem(), name); field.IsValid() && field.Kind() == reflect.String {
				field.SetString(text)
			}
		}
		return f.err()
	}
}

// setting is one value for a driver.
type setting struct {
	at      []string
	name    string
	value   any
	written bool // not a default
}

// settingsOf answers the settings of one of the four tiers.
func (e *Effective) settingsOf(tier string) (all []setting) {
	block := tier
	switch driver := e.drivers[tier]; driver {
	case "sqlite", "postgres", "redis":
		block = driver
	}
	raw := make(map[string]bool)
	walk(e.raw, func(l leaf) { raw[pathKey(l.at)] = !l.value.IsZero() })
	walk(e.cfg, func(l leaf) {
		if l.at[0] != block || l.value.IsZero() {
			return
		}
		switch strings.Join(l.at, ".") {
		case "cache.driver", "cache.journal_limit", // the manager's
			"redis.ttl_default", "postgres.password", "postgres.sslmode": // in policies and in the URL
			return
		}
		all = append(all, setting{l.at, l.at[1], plain(l.value), raw[pathKey(l.at)]})
	})
	for i, s := range all {
		if strings.Join(s.at, ".") == "postgres.url" {
			all[i].value = completeURL(*e.cfg.Postgres)
		}
	}
	return all
}

// completeURL puts what stands apart into a URL that was checked.
func completeURL(p Postgres) string {
	u, err := url.Parse(string(p.URL))
	if err != nil || p.Password == "" && p.SSLMode == "" {
		return string(p.URL)
	}
	if p.Password != "" {
		u.User = url.UserPassword(u.User.Username(), string(p.Password))
	}
	if p.SSLMode != "" {
		q := u.Query()
		q.Set("sslmode", p.SSLMode)
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// plain answers a setting as a driver's option struct holds it.
func plain(v reflect.Value) any {
	switch t := v.Interface().(type) {
	case TTL:
		d, _ := t.Duration()
		return d
	case Duration:
		d, _ := t.Duration()
		return d
	case Size:
		n, _ := t.Bytes()
		return n
	case Secret:
		return string(t)
	case *bool:
		return *t
	default:
		return t
	}
}

func fieldOf(s reflect.Value, name string) reflect.Value {
	for i := range s.NumField() {
		if key := yamlName(s.Type().Field(i)); key != "" && key == name {
			return s.Field(i)
		}
	}
	return reflect.Value{}
}

func (s setting) fill(f *faults, into reflect.Value, tier string) {
	field, value := fieldOf(into, s.name), reflect.ValueOf(s.value)
	switch {
	case !field.IsValid():
		if s.written {
			f.add(s.at, "the driver of this tier does not know it")
		}
	case value.Type().AssignableTo(field.Type()):
		field.Set(value)
	case field.Kind() == reflect.Pointer && value.Type().AssignableTo(field.Type().Elem()):
		p := reflect.New(field.Type().Elem())
		p.Elem().Set(value)
		field.Set(p)
	case value.CanInt() && field.CanInt() && !field.OverflowInt(value.Int()):
		field.SetInt(value.Int())
	case value.Kind() == reflect.String && field.Kind() == reflect.String:
		field.SetString(value.String())
	default:
		f.wrap(s.at, fmt.Sprintf("the driver of tier %s takes a %s, the setting is a %s", tier, field.Type(), value.Type()), tiers.ErrType)
	}
}

// fillOwn fills the options of a tier of the app's own.
func (e *Effective) fillOwn(f *faults, tier string, into reflect.Value) {
	t, ok := e.raw.Tiers[tier]
	at := []string{"tiers", tier}
	switch {
	case !ok:
		f.add(at, "there is no such tier"+didYouMean(tier, e.tierNames()))
	case t.Options != nil:
		given := reflect.Indirect(reflect.ValueOf(t.Options))
		if !given.IsValid() {
			return
		}
		if given.Type() != into.Type().Elem() {
			f.wrap(at, fmt.Sprintf("its driver takes options of type %s, not %s", into.Type().Elem(), given.Type()), tiers.ErrType)
			return
		}
		into.Elem().Set(given)
	case t.written != nil:
		d := decoder{file: t.written.file, dir: t.written.dir, lookup: e.lookup, origin: e.raw.origin, faults: f, foreign: true}
		d.decode(t.written.node, into.Elem(), at, "")
	}
}

// checkOwnDriver looks the driver of an own tier up and tries its options.
func (e *Effective) checkOwnDriver(f *faults, name string, t Tier) {
	d, problem := FindDriver(e.options.drivers, t.Driver)
	if problem != nil && e.foreignDriver(t.Driver) {
		return
	}
	if problem != nil {
		at := []string{"tiers", name, "driver"}
		f.add(at, e.raw.conceal(at, t.Driver, problem.Error()))
		return
	}
	if d.Options == nil {
		if t.written != nil && len(t.written.node.Content) > 0 {
			f.add([]string{"tiers", name}, fmt.Sprintf("the driver %s takes no options", t.Driver))
		}
		return
	}
	e.fillOwn(f, name, reflect.New(reflect.TypeOf(d.Options).Elem()))
}

// FindDriver answers the driver that a tier of the app's own names: one made
// for own tiers first, else the only one of that name; TIER/NAME picks one of
// several.
func FindDriver(ds tiers.Drivers, name string) (tiers.Driver, error) {
	if d, ok := ds.Find("", name); ok {
		return d, nil
	}
	if tier, short, is := strings.Cut(name, "/"); is {
		if d, ok := ds.Find(tier, short); ok {
			return d, nil
		}
	}
	var found tiers.Drivers
	names := make(map[string]bool)
	for _, d := range ds {
		names[d.Name] = true
		if d.Name == name {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		problem := fmt.Sprintf("there is no driver %q%s", name, didYouMean(name, sortedKeys(names)))
		if nearest.Name(name, sortedKeys(names)) == "" {
			problem += "; a program appends its own to the list of drivers"
		}
		return tiers.Driver{}, errors.New(problem)
	case 1:
		return found[0], nil
	}
	forms := make(map[string]bool)
	for _, d := range found {
		forms[d.Tier+"/"+d.Name] = true
	}
	return tiers.Driver{}, fmt.Errorf("there are several drivers %q: write %s", name, orList(sortedKeys(forms)))
}
