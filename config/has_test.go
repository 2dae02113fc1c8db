package config_test

import "testing"

func TestACategoryIsThereWhenItHasAPolicy(t *testing.T) {
	for _, text := range []string{"", "default_store: file", "categories: {a: {tier: file}}"} {
		e := resolve(t, parse(t, text))
		for _, name := range []string{"a", "a.b", "b", "session.history", "session.histroy", "session.history.x", "store:file", "", "a/b"} {
			_, err := e.Policy(name, nil)
			if has := e.Has(name); has != (err == nil) {
				t.Errorf("%q, category %q: it is there: %v, and its policy answers %v", text, name, has, err)
			}
		}
	}
}
