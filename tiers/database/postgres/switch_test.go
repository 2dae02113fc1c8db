package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// length is how many jobs are in the queue.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// holdTurn takes the writers' turn as another process would.
func holdTurn(t *testing.T, tier *Tier) (give func()) {
	t.Helper()
	other, err := tier.read.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), takeTurn, lockKey(tier.schema, "writer")); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := other.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// waitsForTurn waits until the writer waits for its turn.
func waitsForTurn(t *testing.T, tier *Tier) {
	t.Helper()
	stuck(t, tier, 1, `locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = $1`, lockKey(tier.schema, "writer"))
}

// inOneGroup makes one group of calls, in their order, and answers what each has answered.
func inOneGroup(t *testing.T, tier *Tier, calls ...func() error) (errs []error) {
	t.Helper()
	give := holdTurn(t, tier)
	first := func() error {
		_, err := tier.Delete(t.Context(), named("first"), tiers.Cond{})
		return err
	}
	answers := make([]chan error, 1+len(calls))
	for i, do := range append([]func() error{first}, calls...) {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- do() }()
		for tier.writer.queue.length() <= i {
			_ = tiers.SystemClock().Sleep(t.Context(), time.Millisecond)
		}
		if i == 0 { // its group has begun, and the others will be one
			waitsForTurn(t, tier)
		}
	}
	give()
	if err := <-answers[0]; err != nil {
		t.Fatal(err)
	}
	for _, a := range answers[1:] {
		errs = append(errs, <-a)
	}
	return errs
}

// prepare stores a record in a category that is to take the place of another.
func prepare(t *testing.T, tier *Tier, category, name string) {
	t.Helper()
	r := record(name, "comes")
	r.Category, r.Version = category, 7
	if err := tier.Apply(t.Context(), []tiers.Record{r}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestASwitchAmongRowsThatAreDoneHasATransactionOfItsOwn: in one group with what removes a
// row of its space it can't be, and comes after that.
func TestASwitchAmongRowsThatAreDoneHasATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	tier := open1(t, shared(t))
	waiting := tiers.Row{Record: record("k", "waits"), Tier: "file"}
	rows, err := tier.Append(t.Context(), []tiers.Row{waiting}, []tiers.Cond{{}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, tier, "-from", "new")
	since, err := tier.Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(inOneGroup(t, tier,
		func() error { return tier.Done(t.Context(), rows) },
		func() error {
			_, _, err := tier.SwitchRows(t.Context(), nil, []tiers.RowMove{{
				From: tiers.Space{Category: "-from"}, Gone: tiers.Space{Category: "-gone"}, To: waiting.Space(),
				Tier: "file", Owner: "owner", Version: rows[0].Version + 1, Since: since,
			}})
			return err
		})...)
	if err != nil {
		t.Error(err)
	}
	due, err := tier.Due(t.Context(), "file", 0, 9)
	if err != nil || len(due) != 1 || due[0].Name != "new" {
		t.Errorf("%v wait, %v", due, err)
	}
}

// TestASwitchAmongChangesOfItsRecordsHasATransactionOfItsOwn: what was decided on the
// records before it does not come over those that it brings.
func TestASwitchAmongChangesOfItsRecordsHasATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	tier := open1(t, shared(t))
	for _, c := range []struct {
		why    string
		brings string // key that takes the place of k
		first  bool   // the switch is the first of the group
		save   error
	}{
		{"a switch that replaces the key, and a save", "k", true, tiers.ErrConflict},
		{"a switch that removes the key, and a save", "new", true, tiers.ErrConflict},
		{"a save, and a switch that replaces the key", "k", false, nil},
		{"a save, and a switch that removes the key", "new", false, nil},
	} {
		was, err := tier.Save(t.Context(), record("k", "was"), tiers.Cond{})
		if err != nil {
			t.Fatal(err)
		}
		prepare(t, tier, "-from", c.brings)
		var saved error
		calls := []func() error{
			func() error {
				_, saved = tier.Save(t.Context(), record("k", "saved"), tiers.If(was.Version))
				return nil
			},
			func() error {
				_, err := tier.Switch(t.Context(), []tiers.Move{{From: tiers.Space{Category: "-from"}, To: was.Space()}})
				return err
			},
		}
		if c.first {
			calls[0], calls[1] = calls[1], calls[0]
		}
		if err := errors.Join(inOneGroup(t, tier, calls...)...); err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		if !errors.Is(saved, c.save) {
			t.Errorf("%s: the save answers %v, want %v", c.why, saved, c.save)
		}
		for _, name := range []string{"k", "new"} {
			r, err := tier.Load(t.Context(), named(name))
			if name == c.brings && string(r.Value) != "comes" || name != c.brings && !errors.Is(err, tiers.ErrNotFound) {
				t.Errorf("%s: of %s is stored %q, %v", c.why, name, r.Value, err)
			}
		}
	}
}
