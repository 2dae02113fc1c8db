package tiers_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// plain has the required methods alone. The record "a" is there, "bad" can't
// be read, anything else is absent.
type plain struct{ deleted []tiers.Cond }

var errBad = errors.New("bad")

func (*plain) Load(_ context.Context, k tiers.Key) (tiers.Record, error) {
	switch k.Name {
	case "a":
		return tiers.Record{Key: k, Value: []byte("value"), Version: 7}, nil
	case "bad":
		return tiers.Record{}, errBad
	}
	return tiers.Record{}, tiers.ErrNotFound
}

func (*plain) Save(_ context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	if r.Name == "bad" {
		return tiers.Record{}, errBad
	}
	if err := c.Holds(7); err != nil {
		return tiers.Record{}, err
	}
	r.Version = 8
	return r, nil
}

func (p *plain) Delete(_ context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
	p.deleted = append(p.deleted, c)
	if k.Name == "bad" {
		return false, errBad
	}
	return k.Name == "a", nil
}

func (*plain) List(_ context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		k := tiers.Key{Category: q.Category, Name: "a"}
		if !yield(tiers.Record{Key: k, Value: []byte("value")}, nil) {
			return
		}
		k.Name = "bb"
		if !yield(tiers.Record{Key: k}, errBad) { // one bad record
			return
		}
		if q.Category == "broken" {
			yield(tiers.Record{}, errBad) // the end
		}
	}
}

func (*plain) Spaces(context.Context) iter.Seq2[tiers.Space, error] {
	return tiers.Failed[tiers.Space](errBad)
}

func (*plain) Close(context.Context) error { return nil }

// able has a few capabilities, which its wrappers may hide or pass on.
type able struct{ plain }

func (*able) Exists(context.Context, tiers.Key) (bool, error) { return true, nil }

func (*able) Touch(context.Context, tiers.Key, time.Duration) (bool, error) { return true, nil }

func (*able) Describe() tiers.Info { return tiers.Info{Driver: "able"} }

// embedding passes on the required methods only.
type embedding struct{ tiers.Tier }

// answering passes on what it was made for.
type answering struct {
	tiers.Tier
	toucher tiers.Toucher
}

func (a answering) As(target any) bool {
	if t, ok := target.(*tiers.Toucher); ok && a.toucher != nil {
		*t = a.toucher
		return true
	}
	return false
}

// Exists is a method that As does not answer for.
func (answering) Exists(context.Context, tiers.Key) (bool, error) { return true, nil }

func TestAsAsksTheWrapper(t *testing.T) {
	inner := &able{}
	for _, c := range []struct {
		why             string
		tier            tiers.Tier
		toucher, exists bool
	}{
		{"a tier has what it implements", inner, true, true},
		{"a tier without it has not", &plain{}, false, false},
		{"nobody looks through a wrapper that did not answer", embedding{inner}, false, false},
		{"a wrapper answers for itself, and that is final", answering{Tier: inner, toucher: inner}, true, false},
		{"a wrapper may have nothing", answering{Tier: inner}, false, false},
	} {
		toucher, ok := tiers.As[tiers.Toucher](c.tier)
		if ok != c.toucher || ok != (toucher != nil) {
			t.Errorf("%s: it has a Toucher: %v", c.why, ok)
		}
		if _, ok := tiers.As[tiers.Exister](c.tier); ok != c.exists {
			t.Errorf("%s: it has an Exister: %v", c.why, ok)
		}
	}
}

func key(name string) tiers.Key { return tiers.Key{Category: "c", Name: name} }

// wantItem looks for the typed error of a key in a joined one.
func wantItem(t *testing.T, err error, name string) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v is not joined", err)
	}
	for _, one := range joined.Unwrap() {
		var e *tiers.Error
		if errors.As(one, &e) && e.Key == name && errors.Is(e, errBad) {
			return
		}
	}
	t.Errorf("no error of %q in %v", name, err)
}

func TestBatchesFallBackToSingleCalls(t *testing.T) {
	ctx, p := t.Context(), &plain{}
	rs, err := tiers.LoadMany(ctx, p, []tiers.Key{key("absent"), key("bad"), key("a")})
	wantItem(t, err, "bad")
	if len(rs) != 3 || rs[0].Version != 0 || rs[0].Key != key("absent") || rs[1].Version != 0 || rs[2].Version != 7 {
		t.Errorf("load many answers %+v", rs)
	}
	rs, err = tiers.SaveMany(ctx, p, []tiers.Record{{Key: key("x")}, {Key: key("bad")}, {Key: key("y")}}, []tiers.Cond{{}, {}, tiers.If(7)})
	wantItem(t, err, "bad")
	if len(rs) != 3 || rs[0].Version != 8 || rs[1].Version != 0 || rs[2].Version != 8 {
		t.Errorf("save many answers %+v", rs)
	}
	if _, err = tiers.SaveMany(ctx, p, []tiers.Record{{Key: key("x")}}, []tiers.Cond{tiers.If(0)}); !errors.Is(err, tiers.ErrExists) {
		t.Errorf("the condition of a batch is passed over: %v", err)
	}
	existed, err := tiers.DeleteMany(ctx, p, []tiers.Key{key("a"), key("bad"), key("absent")}, []tiers.Cond{tiers.If(1), {}, tiers.If(3)})
	wantItem(t, err, "bad")
	if len(existed) != 3 || !existed[0] || existed[1] || existed[2] {
		t.Errorf("delete many answers %v", existed)
	}
	if want := []tiers.Cond{tiers.If(1), {}, tiers.If(3)}; len(p.deleted) != 3 || p.deleted[0] != want[0] || p.deleted[2] != want[2] {
		t.Errorf("the conditions arrive as %v", p.deleted)
	}
	if _, err := tiers.DeleteMany(ctx, p, []tiers.Key{key("a")}, nil); err != nil {
		t.Errorf("delete many without conditions: %v", err)
	}
}

func TestExistsFallsBackToLoad(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "absent": false, "bad": false} {
		got, err := tiers.Exists(t.Context(), &plain{}, key(name))
		if got != want || (name == "bad") != errors.Is(err, errBad) {
			t.Errorf("exists of %q answers %v and %v", name, got, err)
		}
	}
	if got, err := tiers.Exists(t.Context(), &able{}, key("absent")); !got || err != nil {
		t.Errorf("the tier's own Exists is not asked: %v, %v", got, err)
	}
}

func TestTouchIsUnsupportedWithoutTheCapability(t *testing.T) {
	_, err := tiers.Touch(t.Context(), &plain{}, key("a"), time.Hour)
	var e *tiers.Error
	if !errors.Is(err, tiers.ErrUnsupported) || !errors.As(err, &e) || e.Key != "a" {
		t.Errorf("touch answers %v", err)
	}
	if there, err := tiers.Touch(t.Context(), &able{}, key("a"), time.Hour); !there || err != nil {
		t.Errorf("the tier's own Touch is not asked: %v, %v", there, err)
	}
}

func TestCountFallsBackToTheList(t *testing.T) {
	n, bytes, err := tiers.Count(t.Context(), &plain{}, tiers.Space{Category: "c"})
	if n != 2 || bytes != int64(len("a")+len("value")+len("bb")) || err != nil {
		t.Errorf("count answers %d, %d and %v; a bad record counts as well", n, bytes, err)
	}
	if _, _, err := tiers.Count(t.Context(), &plain{}, tiers.Space{Category: "broken"}); !errors.Is(err, errBad) {
		t.Errorf("count of a list that ended early answers %v", err)
	}
}

func TestDescribeWithoutTheCapability(t *testing.T) {
	if i := tiers.Describe(&plain{}); i != (tiers.Info{}) {
		t.Errorf("describe answers %+v", i)
	}
	if i := tiers.Describe(&able{}); i.Driver != "able" {
		t.Errorf("describe answers %+v", i)
	}
}

func TestCondHolds(t *testing.T) {
	for _, c := range []struct {
		why    string
		cond   tiers.Cond
		stored tiers.Version
		want   error
	}{
		{"no condition, absent", tiers.Cond{}, 0, nil},
		{"no condition, present", tiers.Cond{}, 7, nil},
		{"if absent, absent", tiers.If(0), 0, nil},
		{"if absent, present", tiers.If(0), 7, tiers.ErrExists},
		{"if version, that one", tiers.If(7), 7, nil},
		{"if version, another", tiers.If(7), 8, tiers.ErrConflict},
		{"if version, absent", tiers.If(7), 0, tiers.ErrConflict},
	} {
		if got := c.cond.Holds(c.stored); !errors.Is(got, c.want) || c.want == nil && got != nil {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
	if _, ok := (tiers.Cond{}).Version(); ok {
		t.Error("no condition is one")
	}
	if v, ok := tiers.If(0).Version(); !ok || v != 0 {
		t.Error("if absent is no condition")
	}
}

func TestFailedEndsAtOnce(t *testing.T) {
	n := 0
	for v, err := range tiers.Failed[int](errBad) {
		if n++; v != 0 || !errors.Is(err, errBad) {
			t.Errorf("it yields %v and %v", v, err)
		}
	}
	if n != 1 {
		t.Errorf("it yields %d times", n)
	}
}

func TestDriversFind(t *testing.T) {
	ds := tiers.Drivers{{Tier: "cache", Name: "redis"}, {Tier: "cache", Name: "file"}, {Tier: "file", Name: "file"}}
	if d, ok := ds.Find("cache", "file"); !ok || d.Tier != "cache" || d.Name != "file" {
		t.Errorf("find answers %+v", d)
	}
	if _, ok := ds.Find("file", "redis"); ok {
		t.Error("a driver of another tier was found")
	}
}
