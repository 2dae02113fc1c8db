package crashtest

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// shelf is a tier that holds one record, or none.
type shelf struct {
	tiers.Tier
	r *tiers.Record
}

func (s shelf) Load(context.Context, tiers.Key) (tiers.Record, error) {
	if s.r == nil {
		return tiers.Record{}, tiers.ErrNotFound
	}
	return *s.r, nil
}

func (s shelf) List(context.Context, tiers.Query) iter.Seq2[tiers.Record, error] { return nil }

func TestWhatALedgerAccepts(t *testing.T) {
	k := keyOf(0, 0)
	holds := func(n int, v tiers.Version) *tiers.Record {
		return &tiers.Record{Key: k, Version: v, Value: encode(k.Name, n, "pad")}
	}
	torn := holds(101, 7)
	torn.Value = append(torn.Value[:len(torn.Value)-3], `x"}`...)
	ack := func(n int, v tiers.Version) Event { return Event{Kind: "ack", Key: k.Name, N: n, Version: v} }
	fail := func(n int, class string) Event { return Event{Kind: "err", Key: k.Name, N: n, Class: class} }
	for _, c := range []struct {
		why    string
		events []Event
		r      *tiers.Record
		says   string // part of the complaint; empty: none
	}{
		{"what was acknowledged is there", []Event{ack(101, 7)}, holds(101, 7), ""},
		{"the next operation was under way and took effect", []Event{ack(101, 7)}, holds(102, 8), ""},
		{"nothing was acknowledged and nothing is there", nil, nil, ""},
		{"the first was under way", nil, holds(101, 1), ""},
		{"an acknowledged save is gone", []Event{ack(101, 7)}, nil, "is gone"},
		{"an acknowledged delete holds", []Event{ack(105, 0)}, nil, ""},
		{"the next operation is a delete that took effect", []Event{ack(104, 7)}, nil, ""},
		{"a deleted record is back", []Event{ack(104, 7), ack(105, 0)}, holds(104, 7), "holds operation 104"},
		{"an older value is back", []Event{ack(101, 7), ack(102, 8)}, holds(101, 7), "holds operation 101"},
		{"an operation that nobody could have begun", []Event{ack(101, 7)}, holds(103, 9), "holds operation 103"},
		{"the same operation with another version", []Event{ack(101, 7)}, holds(101, 8), "with version 7"},
		{"a later operation with an older version", []Event{ack(101, 7)}, holds(102, 7), "an earlier one has 7"},
		{"the value is torn", nil, torn, "is torn"},
		{"the value of another key", nil, &tiers.Record{Value: encode("other", 101, "")}, "is torn"},
		{"an unknown outcome may show", []Event{ack(101, 7), fail(102, Unknown), fail(103, Unavailable)}, holds(102, 8), ""},
		{"an unknown outcome may not show", []Event{ack(101, 7), fail(102, Unknown)}, holds(101, 7), ""},
		{"a plain failure may not show", []Event{ack(101, 7), fail(102, Full), fail(103, Full)}, holds(102, 8), "holds operation 102"},
	} {
		t.Run(c.why, func(t *testing.T) {
			l := newLedger(1)
			l.base = 100
			for _, e := range c.events {
				if e.Kind == "err" {
					l.fail(e)
				} else if err := l.ack(e); err != nil {
					t.Fatal(err)
				}
			}
			_, err := l.checkKey(t.Context(), shelf{r: c.r}, k)
			if (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestALedgerRefusesVersionsThatDoNotGrow(t *testing.T) {
	l := newLedger(1)
	if err := l.ack(Event{Key: "k", N: 1, Version: 5}); err != nil {
		t.Fatal(err)
	}
	if err := l.ack(Event{Key: "k", N: 2, Version: 5}); err == nil {
		t.Error("the same version twice is taken")
	}
	if err := l.ack(Event{Key: "k", N: 2, Version: 6}); err == nil {
		t.Error("the same operation twice is taken")
	}
}

func TestALineThatWasCutOffIsDropped(t *testing.T) {
	var got []Event
	err := readEvents(strings.NewReader(Event{Kind: "ready"}.String()+"\n"+`{"kind":"ack","key":"k`), func(e Event) { got = append(got, e) })
	if err != nil || len(got) != 1 || got[0].Kind != "ready" {
		t.Errorf("got %v, %v", got, err)
	}
}
