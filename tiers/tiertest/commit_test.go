package tiertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/tiers"
)

func TestHonestCommitterPasses(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var all deciders
	RunCommit(t, func(_ context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		return all.open(dir, clock), nil
	})
}

// commitFlaw breaks one promise; rule names the case that must notice.
type commitFlaw struct {
	name string
	rule string
	make func(d *decider)
}

// changedCommit is a flaw that changes what is committed.
func changedCommit(change func(c *tiers.Commit)) func(d *decider) {
	return func(d *decider) {
		d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
			change(&c)
			return d.decide(ctx, c)
		}
	}
}

// padded makes the answer as long as it has to be after rows or saves were left
// out.
func padded(out tiers.Committed, c tiers.Commit) tiers.Committed {
	for i := len(out.Saves); i < len(c.Saves); i++ {
		out.Saves = append(out.Saves, tiers.Record{Key: c.Saves[i].Key, Version: 1 << 60})
	}
	for i := len(out.Rows); i < len(c.Rows); i++ {
		out.Rows = append(out.Rows, c.Rows[i])
	}
	return out
}

func commitFlaws() []commitFlaw {
	return slices.Concat(recordFlaws(), rowFlaws(), outcomeFlaws())
}

func recordFlaws() []commitFlaw {
	return []commitFlaw{
		{"forgets deletes", "commit/a commit does all that it says", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				all := c
				c.Saves = slices.DeleteFunc(slices.Clone(c.Saves), func(r tiers.Record) bool { return r.Deleted })
				_, err := d.decide(ctx, c)
				return padded(tiers.Committed{}, all), err
			}
		}},
		{"forgets what was there", "commit/a commit does all that it says", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				for i := range out.Saves {
					out.Saves[i].Created = out.Saves[i].Updated
				}
				return out, err
			}
		}},
		{"forgets the value of a fact", "commit/a commit does all that it says", changedCommit(func(c *tiers.Commit) { c.OnceValue = nil })},
		{"checks no reads", "commit/a read that has changed refuses the commit", changedCommit(func(c *tiers.Commit) { c.Reads = nil })},
		{"checks the first read alone", "commit/a read that has changed refuses the commit", changedCommit(func(c *tiers.Commit) { c.Reads = c.Reads[:min(len(c.Reads), 1)] })},
		{"checks no reads of what was absent", "commit/a read that has changed refuses the commit", changedCommit(func(c *tiers.Commit) {
			c.Reads = slices.DeleteFunc(slices.Clone(c.Reads), func(r tiers.Read) bool { return r.Version == 0 })
		})},
		{"takes what has expired for unchanged", "commit/a read that has changed refuses the commit", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				c.Reads = slices.DeleteFunc(slices.Clone(c.Reads), func(r tiers.Read) bool {
					return r.Version != 0 && d.records[r.Key].Version == r.Version
				})
				return d.decide(ctx, c)
			}
		}},
		{"saves before it checks", "commit/a read that has changed refuses the commit", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				if err != nil {
					d.inside(func() {
						for _, r := range c.Saves {
							_, _ = d.save(r, tiers.Cond{})
						}
					})
				}
				return out, err
			}
		}},
		{"remembers what it refuses", "commit/a read that has changed refuses the commit", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				if len(c.Saves) > 0 {
					d.inside(func() { d.ids[c.ID] = true })
				}
				return out, err
			}
		}},
		{"says nothing of the key", "commit/a read that has changed refuses the commit", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				if errors.Is(err, tiers.ErrConflict) {
					err = &tiers.Error{Op: "commit", Tx: c.ID, Err: tiers.ErrConflict}
				}
				return out, err
			}
		}},
		{"refuses reads of what is absent", "commit/a read that holds lets the commit pass", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				for _, r := range c.Reads {
					if r.Version == 0 {
						return tiers.Committed{}, tiers.ErrConflict
					}
				}
				return d.decide(ctx, c)
			}
		}},
		{"checks no listings", "commit/a listing that has changed refuses the commit", changedCommit(func(c *tiers.Commit) { c.Ranges = nil })},
		{"checks no empty listings", "commit/a listing that has changed refuses the commit", changedCommit(func(c *tiers.Commit) {
			c.Ranges = slices.DeleteFunc(slices.Clone(c.Ranges), func(r tiers.Range) bool { return r.Sum == 0 })
		})},
		{"lists as far as the page went", "commit/a listing that has changed refuses the commit", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				for _, r := range c.Ranges {
					if r.Query.Limit > 0 {
						c.Ranges = nil
						break
					}
				}
				return d.decide(ctx, c)
			}
		}},
		{"lists beyond the end", "commit/changes outside of a listing let the commit pass", changedCommit(func(c *tiers.Commit) {
			c.Ranges = slices.Clone(c.Ranges)
			for i := range c.Ranges {
				c.Ranges[i].End = ""
			}
		})},
		{"lists against the order", "commit/changes outside of a listing let the commit pass", changedCommit(func(c *tiers.Commit) {
			c.Ranges = slices.Clone(c.Ranges)
			for i := range c.Ranges {
				c.Ranges[i].Query.Reverse = false
			}
		})},
		{"writes to check", "commit/a commit that only checks changes nothing", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				d.inside(func() { d.changes.Journal++ })
				return d.decide(ctx, c)
			}
		}},
		{"remembers what only checks", "commit/a commit that only checks changes nothing", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				d.inside(func() { d.ids[c.ID] = d.ids[c.ID] || err == nil })
				return out, err
			}
		}},
		{"does again what was done", "commit/what is done once is done once", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				d.inside(func() { delete(d.facts, c.OnlyOnce) })
				return d.decide(ctx, c)
			}
		}},
		{"saves what it can of bad keys", "commit/what can't be stored refuses the whole commit", changedCommit(func(c *tiers.Commit) {
			c.Saves = slices.DeleteFunc(slices.Clone(c.Saves), func(r tiers.Record) bool { return r.Check() != nil })
		})},
		{"keeps the caller's value", "commit/a commit keeps copies", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				if err == nil && c.OnlyOnce != "" {
					d.inside(func() { d.facts[c.OnlyOnce] = c.OnceValue })
				}
				return out, err
			}
		}},
		{"gives all records of a commit one version", "commit/versions grow over commits and saves", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				for i := range out.Saves {
					out.Saves[i].Version = out.Saves[0].Version
				}
				return out, err
			}
		}},
	}
}

func rowFlaws() []commitFlaw {
	reserved := func(change func(d *decider, row *tiers.Row)) func(d *decider) {
		return func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				c.Rows = slices.Clone(c.Rows)
				for i := range c.Rows {
					if c.Rows[i].Reserved {
						change(d, &c.Rows[i])
					}
				}
				return d.decide(ctx, c)
			}
		}
	}
	return []commitFlaw{
		{"loses the owner of rows", "rows/rows of a commit are rows like any other", changedCommit(func(c *tiers.Commit) {
			c.Rows = slices.Clone(c.Rows)
			for i := range c.Rows {
				c.Rows[i].Owner = ""
			}
		})},
		{"numbers no rows", "rows/rows of a commit are rows like any other", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				for i := range out.Rows {
					out.Rows[i].Seq = 1
				}
				return out, err
			}
		}},
		{"raises reserved versions", "rows/a reserved version is taken as it is", reserved(func(_ *decider, row *tiers.Row) { row.Reserved = false })},
		{"lowers what waits to a reserved version", "rows/a reserved version is taken as it is", reserved(func(d *decider, row *tiers.Row) {
			d.inside(func() { delete(d.rows, rowKey{}.of(*row)) })
		})},
		{"issues what was reserved", "rows/a reserved version is taken as it is", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				var before map[string]tiers.Version
				d.inside(func() { before = maps.Clone(d.issued) })
				out, err := d.decide(ctx, c)
				d.inside(func() { d.issued = before })
				return out, err
			}
		}},
		{"has no limits", "rows/a limit refuses the whole commit", changedCommit(func(c *tiers.Commit) { c.RowLimits = nil })},
		{"has one limit for all", "rows/a limit refuses the whole commit", changedCommit(func(c *tiers.Commit) {
			c.RowLimits = maps.Clone(c.RowLimits)
			for tier := range c.RowLimits {
				c.RowLimits[tier] = c.RowLimits["cache"]
			}
		})},
		{"checks no reads of rows", "rows/a read of another tier holds against the row that waits", changedCommit(func(c *tiers.Commit) { c.RowReads = nil })},
		{"takes deleted rows for live ones", "rows/a read of another tier holds against the row that waits", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				var hidden map[rowKey]tiers.Row
				d.inside(func() {
					hidden = maps.Clone(d.rows)
					for k, row := range d.rows {
						row.Deleted = false
						d.rows[k] = row
					}
				})
				defer d.inside(func() {
					for k, row := range hidden {
						if now, ok := d.rows[k]; ok && now.Seq == row.Seq {
							d.rows[k] = row
						}
					}
				})
				return d.decide(ctx, c)
			}
		}},
		{"forgets what was applied", "rows/a read of another tier holds against rows that were applied since", func(d *decider) {
			d.finish = d.reference.Done
		}},
		{"remembers forever what was applied", "rows/a read of another tier holds against rows that were applied since", changedCommit(func(c *tiers.Commit) { c.Since = 0 })},
		{"keeps in mind the first that was applied", "rows/a read of another tier holds against rows that were applied since", func(d *decider) {
			d.finish = func(ctx context.Context, rows []tiers.Row) error {
				var before map[rowKey]tiers.Row
				d.inside(func() { before = maps.Clone(d.recent) })
				err := d.done(ctx, rows)
				d.inside(func() { maps.Copy(d.recent, before) })
				return err
			}
		}},
		{"takes nothing for overtaken", "rows/a key that is only written holds against later rows that were applied", changedCommit(func(c *tiers.Commit) {
			c.RowReads = slices.DeleteFunc(slices.Clone(c.RowReads), func(r tiers.RowRead) bool { return r.Unread })
		})},
		{"checks no listings of rows", "rows/a listing of another tier holds against rows", changedCommit(func(c *tiers.Commit) { c.RowRanges = nil })},
		{"takes every row for one of the list", "rows/a listing of another tier holds against rows", changedCommit(func(c *tiers.Commit) {
			c.RowRanges = slices.Clone(c.RowRanges)
			for i := range c.RowRanges {
				c.RowRanges[i].End, c.RowRanges[i].Query.After = "", ""
			}
		})},
		{"counts commits, not rows", "rows/the sequence is that of the rows", func(d *decider) {
			d.sequence = func(context.Context) (n uint64, err error) {
				d.inside(func() { n = uint64(len(d.ids)) })
				return n, nil
			}
		}},
	}
}

func outcomeFlaws() []commitFlaw {
	return []commitFlaw{
		{"knows no outcome of rows", "outcome/the outcome tells what was committed", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				if len(c.Saves) == 0 {
					d.inside(func() { delete(d.ids, c.ID) })
				}
				return out, err
			}
		}},
		{"forgets outcomes soon", "outcome/the outcome tells what was committed", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				d.inside(func() {
					if len(d.ids) > 100 {
						clear(d.ids)
					}
				})
				return d.decide(ctx, c)
			}
		}},
		{"commits after it has answered", "outcome/an outcome is final", func(d *decider) {
			var late []tiers.Commit
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				var before []tiers.Commit
				d.inside(func() { before, late = late, nil })
				for _, one := range before {
					_, _ = d.decide(context.WithoutCancel(ctx), one)
				}
				if ctx.Done() != nil && len(c.Saves) == 2 {
					d.inside(func() { late = append(late, c) })
					return tiers.Committed{}, tiers.ErrCommitUnknown
				}
				return d.decide(ctx, c)
			}
		}},
		{"calls unknown what never began", "outcome/a context that is over commits nothing", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				out, err := d.decide(ctx, c)
				if ctx.Err() != nil {
					err = errors.Join(err, tiers.ErrCommitUnknown)
				}
				return out, err
			}
		}},
		{"answers outcomes when closed", "outcome/after Close nothing is committed", func(d *decider) {
			d.outcome = func(context.Context, string) (bool, error) { return false, nil }
		}},
		{"checks before it is its turn", "commits at once/sixteen that read and then write lose no update", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				if _, err := d.decide(ctx, tiers.Commit{ID: c.ID, Reads: c.Reads}); err != nil {
					return tiers.Committed{}, err
				}
				time.Sleep(time.Millisecond)
				c.Reads = nil
				return d.decide(ctx, c)
			}
		}},
		{"checks rows before it is its turn", "commits at once/sixteen that read and then write rows lose no update", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				if _, err := d.decide(ctx, tiers.Commit{ID: c.ID, Since: c.Since, RowReads: c.RowReads}); err != nil {
					return tiers.Committed{}, err
				}
				time.Sleep(time.Millisecond)
				c.RowReads = nil
				return d.decide(ctx, c)
			}
		}},
		{"checks listings before it is its turn", "commits at once/listings let no two of a kind through", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
				if _, err := d.decide(ctx, tiers.Commit{ID: c.ID, Ranges: c.Ranges}); err != nil {
					return tiers.Committed{}, err
				}
				time.Sleep(time.Millisecond)
				c.Ranges = nil
				return d.decide(ctx, c)
			}
		}},
		{"saves one by one", "commits at once/commits are seen whole", func(d *decider) {
			d.commit = func(ctx context.Context, c tiers.Commit) (out tiers.Committed, err error) {
				for i := range c.Saves {
					one := c
					one.Saves = c.Saves[i : i+1]
					part, err := d.decide(ctx, one)
					if err != nil {
						return out, err
					}
					out.Saves = append(out.Saves, part.Saves...)
					time.Sleep(time.Millisecond)
				}
				return out, nil
			}
		}},
		{"checks no listings of rows when records were read too", "commit model/random transactions agree with plain maps", changedCommit(func(c *tiers.Commit) {
			if len(c.Reads) > 0 {
				c.RowRanges = nil
			}
		})},
	}
}

// TestFlawedCommitterIsCaught breaks the contract of transactions; each flaw has
// to be reported by the rule that is about it.
func TestFlawedCommitterIsCaught(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	for _, fl := range commitFlaws() {
		caught[fl.rule] = true
		t.Run(fl.name, func(t *testing.T) {
			t.Parallel()
			var all deciders
			c := Config{Open: func(_ context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
				d := all.open(dir, clock)
				fl.make(d)
				return d, nil
			}}
			err := check(c, t.TempDir(), commitGroups(), limits{rule: 5 * time.Second, grace: 200 * time.Millisecond},
				func(rule string) bool { return rule == fl.rule })
			var fault *RuleError
			if !errors.As(err, &fault) || fault.Rule != fl.rule {
				t.Fatalf("%s is not reported: %v", fl.rule, err)
			}
			t.Log(err)
		})
	}
	for _, g := range commitGroups() {
		for _, r := range g.rules {
			if !caught[g.name+"/"+r.name] {
				t.Errorf("no flaw breaks the rule %q", g.name+"/"+r.name)
			}
		}
	}
}

func TestMissingCommitterIsCaught(t *testing.T) {
	if err := check(honest(), t.TempDir(), commitGroups(), limits{}, func(string) bool { return true }); err == nil {
		t.Error("a tier that decides no transactions passes")
	}
}
