package manager_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

type (
	profile1 struct{ Name string }
	profile2 struct{ First, Last string }
	profile3 struct {
		First, Last string
		Initials    string
	}
)

func split(p profile1) (profile2, error) {
	first, last, ok := strings.Cut(p.Name, " ")
	if !ok {
		return profile2{}, fmt.Errorf("%q has no last name", p.Name)
	}
	return profile2{first, last}, nil
}

func abbreviate(p profile2) (profile3, error) {
	return profile3{p.First, p.Last, p.First[:1] + p.Last[:1]}, nil
}

func TestOlderRecordsAreReadThroughTheChain(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	v1 := manager.For[profile1](m, "app.profile")
	must(t, v1.Save(ctx, "u", profile1{"Ada Lovelace"}))
	v2 := manager.For[profile2](m, "app.profile", manager.Upgrade(1, split))
	if p, err := v2.Load(ctx, "u"); err != nil || p != (profile2{"Ada", "Lovelace"}) {
		t.Errorf("through one upgrade: %+v, %v", p, err)
	}
	v3 := manager.For[profile3](m, "app.profile", manager.Upgrade(2, abbreviate), manager.Upgrade(1, split))
	must(t, manager.Check(v1, v2, v3))
	if p, err := v3.Load(ctx, "u"); err != nil || p != (profile3{"Ada", "Lovelace", "AL"}) {
		t.Errorf("through two upgrades: %+v, %v", p, err)
	}
	for e, err := range v3.List(ctx) {
		if err != nil || e.Value.Initials != "AL" {
			t.Errorf("listed: %+v, %v", e, err)
		}
	}
	must(t, v1.Save(ctx, "bad", profile1{"Plato"}))
	if _, err := v3.Load(ctx, "bad"); err == nil || !strings.Contains(err.Error(), "no last name") {
		t.Errorf("an upgrade that fails is the error: %v", err)
	}
}

func TestNewerSchemaIsRefusedAtLoadAndAtSaveOverIt(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	v1 := manager.For[profile1](m, "app.profile")
	v2 := manager.For[profile2](m, "app.profile", manager.Upgrade(1, split))
	must(t, v1.Save(ctx, "old", profile1{"Ada Lovelace"}))
	must(t, v2.Save(ctx, "u", profile2{"Ada", "Lovelace"}))
	if _, err := v1.Load(ctx, "u"); !errors.Is(err, tiers.ErrSchema) {
		t.Errorf("load of a newer schema: %v", err)
	}
	if err := v1.Save(ctx, "u", profile1{"x"}); !errors.Is(err, tiers.ErrSchema) {
		t.Errorf("save over a newer schema: %v", err)
	}
	if err := v1.SaveMany(ctx, map[string]profile1{"u": {"x"}}); !errors.Is(err, tiers.ErrSchema) {
		t.Errorf("batch over a newer schema: %v", err)
	}
	if p, err := v2.Load(ctx, "u"); err != nil || p.Last != "Lovelace" {
		t.Errorf("the newer record was changed: %+v, %v", p, err)
	}
	must(t, v1.Save(ctx, "old", profile1{"Grace Hopper"}))
	must(t, v1.Save(ctx, "new", profile1{"Grace Hopper"}, manager.IfAbsent()))
}

func TestUntypedSaveKeepsTheSchemaOfTheRecord(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	v2 := manager.For[profile2](m, "app.profile", manager.Upgrade(1, split))
	must(t, v2.Save(ctx, "u", profile2{"Ada", "Lovelace"}))
	must(t, m.Save(ctx, "app.profile", "u", map[string]string{"First": "Grace", "Last": "Hopper"}))
	if p, err := v2.Load(ctx, "u"); err != nil || p.First != "Grace" {
		t.Errorf("the record lost its schema: %+v, %v", p, err)
	}
}

func TestCheckFindsBrokenChains(t *testing.T) {
	t.Parallel()
	m := sagetest.Open(t)
	cases := []struct {
		why  string
		c    interface{ Check() error }
		text string
	}{
		{"a gap", manager.For[profile3](m, "a.b", manager.Upgrade(1, split), manager.Upgrade(3, abbreviate)), "none from schema 2"},
		{"two from one schema", manager.For[profile2](m, "a.b", manager.Upgrade(1, split), manager.Upgrade(1, split)), "two from schema 1"},
		{"types that do not meet", manager.For[profile3](m, "a.b", manager.Upgrade(1, abbreviate), manager.Upgrade(2, abbreviate)), "takes a"},
		{"an end that is not T", manager.For[profile1](m, "a.b", manager.Upgrade(1, split)), "the collection holds"},
		{"schema 0", manager.For[profile2](m, "a.b", manager.Upgrade(0, split)), "begin at 1"},
	}
	all := make([]interface{ Check() error }, len(cases))
	for i, c := range cases {
		all[i] = c.c
		if err := c.c.Check(); !errors.Is(err, tiers.ErrSchema) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), tiers.ErrSchema.Error()) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
	err := manager.Check(all...)
	for _, c := range cases {
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("checked together, %s is not reported: %v", c.why, err)
		}
	}
}
