package tiertest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/tiers"
)

func TestHonestSystemPasses(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	RunSystem(t, honest().Open)
}

// process is a store that only its own process sees, and that ends with it.
type process struct{ *reference }

func (process) Describe() tiers.Info { return tiers.Info{Driver: "process"} }

func TestHonestSystemInMemoryPasses(t *testing.T) {
	RunSystem(t, func(_ context.Context, _ string, clock tiers.Clock) (tiers.Tier, error) {
		return process{&reference{store: newStore(), clock: clock}}, nil
	})
}

// flawedSystem is a reference of which some methods of the system store are
// replaced.
type flawedSystem struct {
	*reference
	setFact func(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error)
	facts   func(ctx context.Context, prefix string) iter.Seq2[tiers.Fact, error]
	lock    func(ctx context.Context, name string) (func(), bool, error)
	append  func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error)
	listing func(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error]
	due     func(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error)
	done    func(ctx context.Context, rows []tiers.Row) error
	backlog func(ctx context.Context, tier string) (tiers.Backlog, error)
	start   func(ctx context.Context, namespace, id string) (tiers.Session, error)
	seen    func(ctx context.Context, seen []tiers.Session) error
	finish  func(ctx context.Context, namespace, id string, idleSince time.Time) (tiers.Session, bool, error)
	reopen  func(ctx context.Context, namespace, id string) (tiers.Session, error)
	all     func(ctx context.Context) iter.Seq2[tiers.Session, error]
	since   func(ctx context.Context, seq uint64) iter.Seq2[tiers.Session, error]
	changes func(ctx context.Context) (tiers.Changes, error)
	waits   func(tier string, k tiers.Key) bool
}

// or answers the replacement when there is one.
func or[F any](replaced, original F, isSet bool) F {
	if isSet {
		return replaced
	}
	return original
}

func (f *flawedSystem) SetFact(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
	return or(f.setFact, f.reference.SetFact, f.setFact != nil)(ctx, name, value, ifAbsent)
}

func (f *flawedSystem) Facts(ctx context.Context, prefix string) iter.Seq2[tiers.Fact, error] {
	return or(f.facts, f.reference.Facts, f.facts != nil)(ctx, prefix)
}

func (f *flawedSystem) Lock(ctx context.Context, name string) (func(), bool, error) {
	return or(f.lock, f.reference.Lock, f.lock != nil)(ctx, name)
}

func (f *flawedSystem) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	return or(f.append, f.reference.Append, f.append != nil)(ctx, rows, conds, limit)
}

func (f *flawedSystem) ListPending(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
	return or(f.listing, f.reference.ListPending, f.listing != nil)(ctx, tier, q)
}

func (f *flawedSystem) Due(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
	return or(f.due, f.reference.Due, f.due != nil)(ctx, tier, after, limit)
}

func (f *flawedSystem) Done(ctx context.Context, rows []tiers.Row) error {
	return or(f.done, f.reference.Done, f.done != nil)(ctx, rows)
}

func (f *flawedSystem) Backlog(ctx context.Context, tier string) (tiers.Backlog, error) {
	return or(f.backlog, f.reference.Backlog, f.backlog != nil)(ctx, tier)
}

func (f *flawedSystem) StartSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	return or(f.start, f.reference.StartSession, f.start != nil)(ctx, namespace, id)
}

func (f *flawedSystem) SeenSessions(ctx context.Context, seen []tiers.Session) error {
	return or(f.seen, f.reference.SeenSessions, f.seen != nil)(ctx, seen)
}

func (f *flawedSystem) EndSession(ctx context.Context, namespace, id string, idleSince time.Time) (tiers.Session, bool, error) {
	return or(f.finish, f.reference.EndSession, f.finish != nil)(ctx, namespace, id, idleSince)
}

func (f *flawedSystem) ReopenSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	return or(f.reopen, f.reference.ReopenSession, f.reopen != nil)(ctx, namespace, id)
}

func (f *flawedSystem) ListSessions(ctx context.Context) iter.Seq2[tiers.Session, error] {
	return or(f.all, f.reference.ListSessions, f.all != nil)(ctx)
}

func (f *flawedSystem) SessionsSince(ctx context.Context, seq uint64) iter.Seq2[tiers.Session, error] {
	return or(f.since, f.reference.SessionsSince, f.since != nil)(ctx, seq)
}

func (f *flawedSystem) Changes(ctx context.Context) (tiers.Changes, error) {
	return or(f.changes, f.reference.Changes, f.changes != nil)(ctx)
}

func (f *flawedSystem) Waits(tier string, k tiers.Key) bool {
	return or(f.waits, f.reference.Waits, f.waits != nil)(tier, k)
}

type systemFlaw struct {
	name string
	rule string
	make func(f *flawedSystem)
}

// rewritten appends rows that were changed before.
func rewritten(edit func(f *flawedSystem, row *tiers.Row, c *tiers.Cond)) func(f *flawedSystem) {
	return func(f *flawedSystem) {
		f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
			rows, conds = slices.Clone(rows), slices.Clone(conds)
			for i := range rows {
				var c tiers.Cond
				edit(f, &rows[i], &c)
				if c != (tiers.Cond{}) {
					conds[i] = c
				}
			}
			return f.reference.Append(ctx, rows, conds, limit)
		}
	}
}

func systemFlaws() []systemFlaw {
	return []systemFlaw{
		{"keeps the first value of a fact", "facts/facts are set and read", func(f *flawedSystem) {
			f.setFact = func(ctx context.Context, name string, value []byte, _ bool) ([]byte, error) {
				return f.reference.SetFact(ctx, name, value, true)
			}
		}},
		{"sets a fact that is there", "facts/a fact set if absent stays", func(f *flawedSystem) {
			f.setFact = func(ctx context.Context, name string, value []byte, _ bool) ([]byte, error) {
				return f.reference.SetFact(ctx, name, value, false)
			}
		}},
		{"lists all facts", "facts/facts are listed in order", func(f *flawedSystem) {
			f.facts = func(ctx context.Context, _ string) iter.Seq2[tiers.Fact, error] { return f.reference.Facts(ctx, "") }
		}},
		{"keeps the caller's fact", "facts/facts are copied", func(f *flawedSystem) {
			f.setFact = func(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
				v, err := f.reference.SetFact(ctx, name, value, ifAbsent)
				f.inside(func() { f.reference.facts[name] = value })
				return v, err
			}
		}},
		{"gives a lock to everybody", "system/a lock has one holder", func(f *flawedSystem) {
			f.lock = func(context.Context, string) (func(), bool, error) { return func() {}, true, nil }
		}},
		{"never gives a lock back", "system/a lock has one holder", func(f *flawedSystem) {
			f.lock = func(ctx context.Context, name string) (func(), bool, error) {
				_, ok, err := f.reference.Lock(ctx, name)
				return func() {}, ok, err
			}
		}},
		{"has one lock for all names", "system/a lock has one holder", func(f *flawedSystem) {
			f.lock = func(ctx context.Context, _ string) (func(), bool, error) { return f.reference.Lock(ctx, "one") }
		}},
		{"loses the owner", "journal/an appended row is pending as it is", rewritten(func(_ *flawedSystem, row *tiers.Row, _ *tiers.Cond) { row.Owner = "" })},
		{"ignores floors", "journal/versions of rows grow and respect floors", rewritten(func(_ *flawedSystem, row *tiers.Row, _ *tiers.Cond) { row.Version = 0 })},
		{"takes what the new row goes over", "journal/a row replaces the one before and goes over any", func(f *flawedSystem) {
			f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
				out, err := f.reference.Append(ctx, rows, conds, limit)
				for i := range out {
					out[i].Over = rows[i].Over
					f.inside(func() { f.rows[rowKey{}.of(out[i])] = out[i] })
				}
				return out, err
			}
		}},
		{"takes a deleted row for present", "journal/conditions of rows hold against what is pending", func(f *flawedSystem) {
			f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
				for i, row := range rows {
					old, err := f.Pending(ctx, row.Tier, row.Key)
					if v, ok := at(conds, i).Version(); ok && v == 0 && err == nil {
						return nil, tiers.Fail("append", "", old.Key, tiers.ErrExists)
					}
				}
				return f.reference.Append(ctx, rows, conds, limit)
			}
		}},
		{"stores what comes before a failed condition", "journal/a failed condition stores nothing of the commit", func(f *flawedSystem) {
			f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
				var out []tiers.Row
				for i, row := range rows {
					one, err := f.reference.Append(ctx, []tiers.Row{row}, []tiers.Cond{at(conds, i)}, limit)
					if err != nil {
						return nil, err
					}
					out = append(out, one...)
				}
				return out, nil
			}
		}},
		{"has no limit", "journal/the limit refuses and deletes always fit", func(f *flawedSystem) {
			f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, _ int64) ([]tiers.Row, error) {
				return f.reference.Append(ctx, rows, conds, 0)
			}
		}},
		{"refuses deletes as well", "journal/the limit refuses and deletes always fit", func(f *flawedSystem) {
			f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
				if limit > 0 && len(rows) > 10 {
					return nil, tiers.ErrFull
				}
				return f.reference.Append(ctx, rows, conds, limit)
			}
		}},
		{"has one row for all tiers", "journal/rows are journaled for each tier alone", func(f *flawedSystem) {
			f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
				out, err := f.reference.Append(ctx, rows, conds, limit)
				for _, row := range out {
					f.inside(func() {
						for k := range f.rows {
							if k.key == row.Key && k.tier != row.Tier {
								delete(f.rows, k)
							}
						}
					})
				}
				return out, err
			}
		}},
		{"numbers by the clock", "journal/many callers append in one order", func(f *flawedSystem) {
			f.append = func(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
				out, err := f.reference.Append(ctx, rows, conds, limit)
				for i := range out {
					out[i].Version = tiers.Version(f.clock.Now().UnixMicro())
				}
				return out, err
			}
		}},
		{"removes rows by their key", "pending/done removes only what was not changed since", func(f *flawedSystem) {
			f.done = func(ctx context.Context, rows []tiers.Row) error {
				f.inside(func() {
					for _, row := range rows {
						delete(f.rows, rowKey{}.of(row))
					}
				})
				return f.reference.Done(ctx, rows)
			}
		}},
		{"hides deleted rows", "pending/pending rows are listed as queries say", func(f *flawedSystem) {
			f.listing = func(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
				return func(yield func(tiers.Row, error) bool) {
					for row, err := range f.reference.ListPending(ctx, tier, q) {
						if !row.Deleted && !yield(row, err) {
							return
						}
					}
				}
			}
		}},
		{"answers due rows by key", "pending/due rows come in order of their sequence", func(f *flawedSystem) {
			f.due = func(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
				rows, err := f.reference.Due(ctx, tier, after, limit)
				slices.Reverse(rows)
				return rows, err
			}
		}},
		{"counts the backlog of all tiers", "pending/the backlog tells rows, bytes and age", func(f *flawedSystem) {
			f.backlog = func(ctx context.Context, tier string) (tiers.Backlog, error) {
				b, err := f.reference.Backlog(ctx, tier)
				other, _ := f.reference.Backlog(ctx, "file")
				b.Rows += other.Rows
				return b, err
			}
		}},
		{"starts a session again and again", "sessions/a session starts once", func(f *flawedSystem) {
			f.start = func(_ context.Context, namespace, id string) (s tiers.Session, err error) {
				f.inside(func() { s = f.begin(namespace, id) })
				return s, nil
			}
		}},
		{"revives an ended session", "sessions/an ended session is answered as it is", func(f *flawedSystem) {
			f.start = func(ctx context.Context, namespace, id string) (tiers.Session, error) {
				return f.ReopenSession(ctx, namespace, id)
			}
		}},
		{"ends what was never there", "sessions/ending what was never started says so", func(f *flawedSystem) {
			f.finish = func(ctx context.Context, namespace, id string, idleSince time.Time) (tiers.Session, bool, error) {
				s, _, err := f.reference.EndSession(ctx, namespace, id, idleSince)
				return s, true, err
			}
		}},
		{"ends a session that is in use", "sessions/an idle session ends only if it is still idle", func(f *flawedSystem) {
			f.finish = func(ctx context.Context, namespace, id string, _ time.Time) (tiers.Session, bool, error) {
				return f.reference.EndSession(ctx, namespace, id, time.Time{})
			}
		}},
		{"lowers seen", "sessions/seen is raised and never lowered", func(f *flawedSystem) {
			f.seen = func(ctx context.Context, seen []tiers.Session) error {
				f.inside(func() {
					for _, s := range seen {
						k := [2]string{s.Namespace, s.ID}
						if old, ok := f.sessions[k]; ok && old.Ended.IsZero() {
							old.Seen = s.Seen
							f.sessions[k] = old
						}
					}
				})
				return ctx.Err()
			}
		}},
		{"reopens under the old generation", "sessions/a session is reopened", func(f *flawedSystem) {
			f.reopen = func(ctx context.Context, namespace, id string) (tiers.Session, error) {
				s, err := f.reference.ReopenSession(ctx, namespace, id)
				s.Generation = 1
				return s, err
			}
		}},
		{"lists sessions by age", "sessions/sessions are listed by namespace and id", func(f *flawedSystem) {
			f.all = func(ctx context.Context) iter.Seq2[tiers.Session, error] { return f.reference.SessionsSince(ctx, 0) }
		}},
		{"tells of every session each time", "sessions/sessions since tells what is new", func(f *flawedSystem) {
			f.since = func(ctx context.Context, _ uint64) iter.Seq2[tiers.Session, error] {
				return f.reference.SessionsSince(ctx, 0)
			}
		}},
		{"ends a session several times", "sessions/one of many ends a session", func(f *flawedSystem) {
			f.finish = func(ctx context.Context, namespace, id string, idleSince time.Time) (tiers.Session, bool, error) {
				s, existed, err := f.reference.EndSession(ctx, namespace, id, idleSince)
				f.inside(func() {
					s.Generation++
					s = f.put(s)
				})
				return s, existed, err
			}
		}},
		{"tells of no row but the first that waits", "waiting/no row that waits is denied", func(f *flawedSystem) {
			f.waits = func(tier string, k tiers.Key) bool { return k.Name == "mine" && f.reference.Waits(tier, k) }
		}},
		{"lets a look hide what came meanwhile", "waiting/a row waits from its append on, whoever looks meanwhile", func(f *flawedSystem) {
			var looks atomic.Int64
			f.changes = func(ctx context.Context) (tiers.Changes, error) {
				looks.Add(1)
				return f.reference.Changes(ctx)
			}
			f.waits = func(tier string, k tiers.Key) bool { return looks.Load()%2 == 0 && f.reference.Waits(tier, k) }
		}},
		{"always wants to be asked", "waiting/of an empty journal nothing waits", func(f *flawedSystem) {
			f.waits = func(string, tiers.Key) bool { return true }
		}},
		{"counts no change of a session", "system/changes grow with every change", func(f *flawedSystem) {
			f.changes = func(ctx context.Context) (tiers.Changes, error) {
				c, err := f.reference.Changes(ctx)
				c.Sessions = 0
				return c, err
			}
		}},
		{"counts looks as changes", "system/changes stand still when nothing is written", func(f *flawedSystem) {
			f.due = func(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
				f.inside(func() { f.reference.changes.Journal++ })
				return f.reference.Due(ctx, tier, after, limit)
			}
		}},
		{"ignores a cancelled context", "system/a context that is over changes nothing in the system store", func(f *flawedSystem) {
			f.start = func(ctx context.Context, namespace, id string) (tiers.Session, error) {
				return f.reference.StartSession(context.WithoutCancel(ctx), namespace, id)
			}
		}},
		{"panics on late use", "system/after Close the system store answers ErrClosed", func(f *flawedSystem) {
			f.due = func(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
				rows, err := f.reference.Due(ctx, tier, after, limit)
				if errors.Is(err, tiers.ErrClosed) {
					panic("send on closed channel")
				}
				return rows, err
			}
		}},
		{"keeps facts among the records", "system/the system store is not among the records", func(f *flawedSystem) {
			f.setFact = func(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
				_, _ = f.Save(ctx, raw(tiers.Key{Category: "facts", Name: name}, string(value)), tiers.Cond{})
				return f.reference.SetFact(ctx, name, value, ifAbsent)
			}
		}},
	}
}

// TestFlawedSystemIsCaught breaks the contract of the system store; each flaw
// has to be reported by the rule that is about it.
func TestFlawedSystemIsCaught(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	for _, fl := range systemFlaws() {
		caught[fl.rule] = true
		t.Run(fl.name, func(t *testing.T) {
			t.Parallel()
			var all stores
			c := Config{Open: func(_ context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
				f := &flawedSystem{reference: &reference{store: all.open(dir), clock: clock}}
				fl.make(f)
				return f, nil
			}}
			err := check(c, t.TempDir(), systemGroups(), limits{rule: 3 * time.Second, grace: 200 * time.Millisecond},
				func(rule string) bool { return rule == fl.rule })
			var fault *RuleError
			if !errors.As(err, &fault) || fault.Rule != fl.rule {
				t.Fatalf("%s is not reported: %v", fl.rule, err)
			}
			t.Log(err)
		})
	}
	for _, g := range systemGroups() {
		for _, r := range g.rules {
			if !caught[g.name+"/"+r.name] {
				t.Errorf("no flaw breaks the rule %q", g.name+"/"+r.name)
			}
		}
	}
}

func TestMissingSystemIsCaught(t *testing.T) {
	c := Config{Open: func(_ context.Context, _ string, clock tiers.Clock) (tiers.Tier, error) {
		return hidden{&reference{store: newStore(), clock: clock}}, nil
	}}
	if err := check(c, t.TempDir(), systemGroups(), limits{}, func(string) bool { return true }); err == nil {
		t.Error("a tier without a system store passes")
	}
}
