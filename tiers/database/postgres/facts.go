package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.System = (*Tier)(nil)

const (
	loadFact  = `SELECT name, value FROM ~.facts WHERE name = $1`
	nextFacts = `SELECT name, value FROM ~.facts WHERE name >= $1 AND name > $2 AND name < $3 AND name <= $4 ORDER BY name LIMIT 64`
	putFacts  = `INSERT INTO ~.facts (name, value) SELECT * FROM unnest($1::text[], $2::bytea[])
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	putCommits = `INSERT INTO ~.commits (id, at) SELECT id, $2 FROM unnest($1::text[]) AS u (id) ON CONFLICT DO NOTHING`
)

// fact is a fact as the jobs of a group have left it.
type fact struct {
	there bool
	value []byte
	put   bool
}

func (x *tx) setFact(name string, value []byte) {
	f := x.facts[name]
	was := *f
	x.change(func() { *f = was })
	*f = fact{there: true, value: value, put: true}
}

// writeRest says what is to be written of facts, sessions and transactions.
func (x *tx) writeRest(b *pgx.Batch) {
	sql := x.w.t.sql
	var names []string
	var values [][]byte
	for name, f := range x.facts {
		if f.put {
			names, values = append(names, name), append(values, f.value)
		}
	}
	if len(names) > 0 {
		b.Queue(sql(putFacts), names, values)
	}
	if len(x.begun) > 0 {
		b.Queue(sql(putCommits), x.begun, x.time)
	}
	x.writeSessions(b)
}

func scanFact(row pgx.CollectableRow) (f tiers.Fact, err error) {
	err = row.Scan(&f.Name, &f.Value)
	f.Value = notNil(f.Value)
	return f, err
}

// Fact implements tiers.Facts.
func (t *Tier) Fact(ctx context.Context, name string) ([]byte, error) {
	all, err := ask(ctx, t, scanFact, loadFact, text(name))
	if err == nil && (len(all) == 0 || text(name) != name) {
		err = fmt.Errorf("fact %q: %w", name, tiers.ErrNotFound)
	}
	if err != nil {
		return nil, t.failed("load fact", tiers.Key{}, err)
	}
	return all[0].Value, nil
}

// SetFact implements tiers.Facts.
func (t *Tier) SetFact(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
	if err := tiers.CheckName(name); err != nil {
		return nil, t.fail("save fact", tiers.Key{}, err)
	}
	value = append([]byte{}, value...)
	var answer []byte
	err := t.writer.do(ctx, &job{
		bytes: len(value),
		wants: func(w *wants) { w.facts[name] = true },
		run: func(x *tx) error {
			if f := x.facts[name]; ifAbsent && f.there {
				answer = append([]byte{}, f.value...)
				return nil
			}
			answer = append([]byte{}, value...)
			x.setFact(name, value)
			return nil
		},
	})
	if err != nil {
		return nil, t.failed("save fact", tiers.Key{}, err)
	}
	return answer, nil
}

// Facts implements tiers.Facts.
func (t *Tier) Facts(ctx context.Context, prefix string) iter.Seq2[tiers.Fact, error] {
	return func(yield func(tiers.Fact, error) bool) {
		for s := spanOf(tiers.Query{Prefix: prefix}); ; {
			page, err := ask(ctx, t, scanFact, nextFacts, s.args()...)
			if err != nil {
				yield(tiers.Fact{}, t.failed("list facts", tiers.Key{}, err))
				return
			}
			for _, f := range page {
				if s.holds(f.Name) && !yield(f, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			s = s.beyond(page[len(page)-1].Name)
		}
	}
}
