package backup

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestTheNewestBackupIsThatOfTheStoreWhichIsMeant(t *testing.T) {
	number := uint64(0)
	of := func(id, store, format string, verified bool) Entry {
		number++
		e := Entry{ID: id, Manifest: Manifest{ID: id, Number: number, Store: store, Created: night.Add(time.Duration(number) * time.Hour), Parts: []PartInfo{{Name: "database", Format: format}}}}
		if verified {
			e.Verified = e.Manifest.Created
		}
		return e
	}
	a1, b2 := of("a1", "store-a", "sqlite", true), of("b2", "store-b", "sqlite", true)
	pg3, a4 := of("pg3", "store-a", "postgres", true), of("a4", "store-a", "sqlite", true)
	fresh5 := of("fresh5", "store-b", "sqlite", false)
	lost := Entry{ID: "lost", Err: tiers.ErrCorrupt}
	for _, c := range []struct {
		why  string
		c    Choice
		all  []Entry
		id   string
		err  error
		text []string
	}{
		{"the newest is another store's", Choice{Known: true, Store: "store-a"}, []Entry{b2, a1}, "a1", nil, nil},
		{"so it is with a time", Choice{Known: true, Store: "store-a", Until: b2.Manifest.Created}, []Entry{a4, b2, a1}, "a1", nil, nil},
		{"the engine can't restore the newest", Choice{Known: true, Store: "store-a", Format: "postgres"}, []Entry{a4, pg3, a1}, "pg3", nil, nil},
		{"no store, and all are of one", Choice{}, []Entry{a4, a1}, "a4", nil, nil},
		{"no store, and all that count are of one", Choice{}, []Entry{fresh5, a4, a1}, "a4", nil, nil},
		{"no store, and several have backups", Choice{}, []Entry{a4, b2, a1}, "", tiers.ErrConflict, []string{"2 of store-a, the newest is a4", "1 of store-b, the newest is b2", "such as a4"}},
		{"only others have one", Choice{Known: true, Store: "store-c"}, []Entry{b2, a1}, "", tiers.ErrNotFound, []string{"this store, which is store-c", "1 of store-b, the newest is b2", "such as b2", "--adopt"}},
		{"it was never backed up", Choice{Known: true}, []Entry{b2, a1}, "", tiers.ErrNotFound, []string{"which never had one", "1 of store-a"}},
		{"its only ones are of another engine", Choice{Known: true, Store: "store-a", Format: "postgres"}, []Entry{a4, b2, a1}, "", tiers.ErrUnsupported, []string{"format postgres", "2 in another, the newest is a4"}},
		{"its own is not verified", Choice{Known: true, Store: "store-b"}, []Entry{fresh5, a4}, "", tiers.ErrNotFound, []string{"1 is not verified", "verify fresh5"}},
		{"whose the only one is can't be told", Choice{Known: true, Store: "store-b"}, []Entry{lost, a4}, "", tiers.ErrNotFound, []string{"1 can't be used: lost"}},
		{"there is none", Choice{Known: true, Store: "store-b"}, nil, "", tiers.ErrNotFound, []string{"no backup at all"}},
	} {
		e, err := c.c.among(c.all)
		if e.ID != c.id || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.why, e.ID, err)
			continue
		}
		if err == nil {
			continue
		}
		text, hint := said(err)
		for _, want := range c.text {
			if !strings.Contains(text+"\n"+hint, want) {
				t.Errorf("%s: no %q in\n%s\n%s", c.why, want, text, hint)
			}
		}
	}
}
