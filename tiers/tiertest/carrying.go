package tiertest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// RunCarrier checks every promise of [tiers.Carrier] on the tiers that open answers: what
// a store has kept goes to an empty one, and comes out of that as it was.
func RunCarrier(t *testing.T, open func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error)) {
	t.Helper()
	runGroups(t, Config{Open: open}, []group{{"books", []rule{
		{name: "what was taken over is what was kept", why: "a store that moves must go on where it was", run: carryAll},
		{name: "a row that would come between others is refused", why: "rows are told by their number, which is never used twice", run: carryRowsInOrder},
		{name: "marks are never lowered", why: "a version must not be issued twice", run: carryMarks},
		{name: "what was read before the marks were raised holds no more", why: "nobody knows what left the journal elsewhere", run: carrySince},
	}}})
}

func (t *T) carrier() (tiers.Carrier, tiers.System, tiers.Committer) {
	c, ok := tiers.As[tiers.Carrier](t.Tier)
	committer, decides := tiers.As[tiers.Committer](t.Tier)
	if !ok || !decides {
		t.Fatalf("the tier is no tiers.Carrier, or no tiers.Committer")
	}
	return c, t.system(), committer
}

// must ends the rule on an error.
func (t *T) must(err error, what string) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (t *T) alike(got, want any, what string) {
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s are %+v, want %+v", what, got, want)
	}
}

func carriedRow(seq uint64, name string, v tiers.Version) tiers.Row {
	at := time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)
	return tiers.Row{
		Record: tiers.Record{
			Key: tiers.Key{Namespace: "acme", Category: "a.b", Name: name}, Codec: "json", Schema: 3, Version: v,
			Created: at, Updated: at.Add(time.Hour), Expires: at.AddDate(200, 0, 0), Value: []byte(`{"n":1}`),
		},
		Seq: seq, Tier: "cache", Owner: "one", Over: tiers.If(7),
	}
}

func carryAll(t *T) {
	c, s, committer := t.carrier()
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	gone := carriedRow(900, "gone", 41)
	gone.Deleted, gone.Value, gone.Over = true, nil, tiers.Cond{}
	sessions := []tiers.Session{
		{Namespace: "", ID: "b", Generation: 3, Started: at, Seen: at.Add(time.Minute), Ended: at.Add(time.Hour), Seq: 5},
		{Namespace: "acme", ID: "a", Generation: 1, Started: at, Seen: at, Seq: 70},
	}
	in := tiers.Books{
		Sessions: sessions, Decisions: []tiers.Decision{{ID: "t1", At: at}, {ID: "t2", At: at.Add(time.Second)}},
		Rows: []tiers.Row{carriedRow(500, "k", 40), gone},
	}
	now := t.Clock.Now()
	mark := tiers.Version(now.Add(time.Hour).UnixMicro())
	t.must(c.TakeOver(t.ctx, in), "take over")
	t.must(c.TakeOver(t.ctx, tiers.Books{Marks: tiers.Marks{
		Version: mark, Sequence: 1000, Sessions: 80, Issued: map[string]tiers.Version{"cache": mark, "other": 9},
	}}), "take over the marks")
	look := func(c tiers.Carrier, s tiers.System) {
		t.alike(collect(t, "sessions", s.ListSessions(t.ctx)), sessions, "sessions")
		t.alike(collect(t, "decisions", c.Decisions(t.ctx)), in.Decisions, "decisions")
		rows, err := c.Queue(t.ctx, 0, 100)
		t.must(err, "queue")
		for i := range rows {
			if len(rows[i].Value) == 0 {
				rows[i].Value = nil
			}
		}
		t.alike(rows, in.Rows, "rows")
		rows, err = c.Queue(t.ctx, 500, 1)
		t.must(err, "queue")
		if len(rows) != 1 || rows[0].Seq != 900 {
			t.Errorf("after row 500 comes %+v", rows)
		}
		m, err := c.Marks(t.ctx)
		t.must(err, "marks")
		if m.Version < mark || m.Sequence < 1000 || m.Sessions < 70 || m.Issued["cache"] != mark || m.Issued["other"] != 9 {
			t.Errorf("the marks are %+v", m)
		}
		b, err := s.Backlog(t.ctx, "cache")
		t.must(err, "backlog")
		if b.Rows != 2 || b.Bytes != int64(len("k")+len("gone")+len(`{"n":1}`)) {
			t.Errorf("the backlog is %+v", b)
		}
		_, err = s.Pending(t.ctx, "cache", in.Rows[0].Key)
		t.must(err, "pending")
	}
	look(c, s)
	if t.reopened() {
		c, s, committer = t.carrier()
		look(c, s)
	}
	was, err := committer.Outcome(t.ctx, "t2")
	t.must(err, "outcome")
	if !was {
		t.Errorf("transaction t2 is not known")
	}
	next, err := s.Append(t.ctx, []tiers.Row{{Record: tiers.Record{Key: in.Rows[0].Key, Codec: "json", Value: []byte("1")}, Tier: "cache"}}, nil, 0)
	t.must(err, "append")
	if len(next) == 1 && (next[0].Seq <= 1000 || next[0].Version <= mark || !next[0].Created.Equal(in.Rows[0].Created)) {
		t.Errorf("the next row of the key is %+v", next[0])
	}
	saved, err := t.Tier.Save(t.ctx, tiers.Record{Key: in.Rows[0].Key, Codec: "json", Value: []byte("1")}, tiers.Cond{})
	t.must(err, "save")
	if saved.Version <= mark {
		t.Errorf("version %d is not above %d", saved.Version, mark)
	}
	ended, _, err := s.EndSession(t.ctx, "acme", "a", time.Time{})
	t.must(err, "end session")
	if ended.Seq <= 70 || ended.Generation != 2 {
		t.Errorf("the session ends as %+v", ended)
	}
}

func carryRowsInOrder(t *T) {
	c, _, _ := t.carrier()
	t.must(c.TakeOver(t.ctx, tiers.Books{Rows: []tiers.Row{carriedRow(5, "a", 1)}}), "take over")
	session := []tiers.Session{{ID: "s", Generation: 1, Started: t.Clock.Now(), Seen: t.Clock.Now(), Seq: 1}}
	for why, r := range map[string]tiers.Row{"its number is used": carriedRow(5, "b", 2), "a row waits for its key": carriedRow(6, "a", 2)} {
		err := c.TakeOver(t.ctx, tiers.Books{Sessions: session, Rows: []tiers.Row{carriedRow(7, "c", 3), r}})
		if r.Seq == 6 {
			err = c.TakeOver(t.ctx, tiers.Books{Sessions: session, Rows: []tiers.Row{r}})
		}
		if !errors.Is(err, tiers.ErrConflict) {
			t.Errorf("%s: %v", why, err)
		}
	}
	rows, err := c.Queue(t.ctx, 0, 10)
	t.must(err, "queue")
	if n := len(collect(t, "sessions", t.system().ListSessions(t.ctx))); len(rows) != 1 || n != 0 {
		t.Errorf("%d rows and %d sessions were stored of what was refused", len(rows)-1, n)
	}
}

func carryMarks(t *T) {
	c, _, _ := t.carrier()
	high := tiers.Marks{Version: 1 << 59, Sequence: 50, Sessions: 3, Issued: map[string]tiers.Version{"cache": 1 << 59}}
	t.must(c.TakeOver(t.ctx, tiers.Books{Marks: high}), "take over")
	t.must(c.TakeOver(t.ctx, tiers.Books{Marks: tiers.Marks{Version: 1, Sequence: 2, Issued: map[string]tiers.Version{"cache": 1}}}), "take over lower ones")
	m, err := c.Marks(t.ctx)
	t.must(err, "marks")
	if m.Version < high.Version || m.Sequence < 50 || m.Issued["cache"] != 1<<59 {
		t.Errorf("the marks are %+v", m)
	}
	err = c.TakeOver(t.ctx, tiers.Books{Marks: tiers.Marks{Version: 1<<60 + 1}})
	if !errors.Is(err, tiers.ErrCorrupt) {
		t.Errorf("a mark that no store can have: %v", err)
	}
}

func carrySince(t *T) {
	c, _, committer := t.carrier()
	since, err := committer.Sequence(t.ctx)
	t.must(err, "sequence")
	t.must(c.TakeOver(t.ctx, tiers.Books{Marks: tiers.Marks{Sequence: 500}}), "take over")
	k := tiers.Key{Category: "a.b", Name: "k"}
	commit := func(id string, since uint64) error {
		_, err := committer.Commit(t.ctx, tiers.Commit{
			ID: id, Since: since, RowReads: []tiers.RowRead{{Tier: "cache", Read: tiers.Read{Key: k}}},
			Saves: []tiers.Record{{Key: k, Codec: "json", Value: []byte("1")}},
		})
		return err
	}
	if err := commit("before", since); !errors.Is(err, tiers.ErrConflict) {
		t.Errorf("a transaction from before the marks were raised: %v", err)
	}
	since, err = committer.Sequence(t.ctx)
	t.must(err, "sequence")
	t.must(commit("after", since), "a transaction from after")
}
