package postgres

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.TopSearcher = (*Tier)(nil)

const (
	// Rows on the first page of the best ones, and on the second; the third has all.
	topRows, moreRows = 64, 1024
	// fewRows is how many there may be for all of them to be found at once, whatever
	// their grades.
	fewRows = 128

	// lastOrder is above that of every row.
	lastOrder = orderSign + "zz"
)

// An inverted index is the only one that this can use: what the planner thinks of a table
// that was just filled would have it read all keys. The first word says the order.
//
//nolint:gochecknoglobals // constant
var (
	foundWhere = ` FROM ~.records WHERE namespace || '' = $1 AND category || '' = $2
		AND key >= $3 AND key > $4 AND key < $5 AND key <= $6 AND ` + liveSQL + nowSQL("$7") + `) AND words IS NOT NULL`
	topOrder = `CASE WHEN starts_with(words[1], '` + orderSign + `') THEN words[1] ELSE '` + orderSign + `z' END COLLATE "C"`
)

// best is a row among those that a search comes upon.
type best struct {
	tiers.Found
	order string
}

func scanBest(row pgx.CollectableRow) (b best, err error) {
	var v int64
	err = row.Scan(&b.Name, &v, &b.order)
	b.Version = version(v)
	return b, err
}

// look begins the query of a search.
func (t *Tier) look(s tiers.Search) (*looking, span) {
	sp := spanOf(tiers.Query{Prefix: s.Prefix})
	return &looking{Search: s, args: append(append([]any{s.Namespace, s.Category}, sp.args()...), t.now())}, sp
}

// Top implements tiers.TopSearcher. The rows of a grade are those whose words all have it
// or a higher one, and not all a higher one.
func (t *Tier) Top(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Ranked, error] {
	space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return tiers.Failed[tiers.Ranked](t.fail("search", space, err))
	}
	return func(yield func(tiers.Ranked, error) bool) {
		if err := t.top(ctx, s, func(r tiers.Ranked) bool { return yield(r, nil) }); err != nil {
			yield(tiers.Ranked{}, t.failed("search", space, err))
		}
	}
}

// top hands out the best first until fn answers false.
func (t *Tier) top(ctx context.Context, s tiers.Search, fn func(tiers.Ranked) bool) error {
	least := tiers.MaxGrade
	if len(s.Words) > 0 {
		// To ask for every grade takes longer than to look at some records.
		if all, err := t.few(ctx, s); err != nil || len(all) < fewRows {
			for _, f := range all {
				if !fn(tiers.Ranked{Found: f, Grade: tiers.MaxGrade, Order: tiers.MaxOrder}) {
					break
				}
			}
			return err
		}
		least = 0
	}
	for grade := tiers.MaxGrade; grade >= least; grade-- {
		if more, err := t.ofGrade(ctx, s, grade, fn); err != nil || !more {
			return err
		}
	}
	return nil
}

// few answers fewRows at most of what there is.
func (t *Tier) few(ctx context.Context, s tiers.Search) ([]tiers.Found, error) {
	l, sp := t.look(s)
	query := `SELECT key, version` + foundWhere + l.anyGrade() + ` LIMIT ` + l.parameter(fewRows)
	all, err := ask(ctx, t, scanFound, query, l.args...)
	if len(all) == fewRows {
		return all, err
	}
	return slices.DeleteFunc(all, func(f tiers.Found) bool { return !sp.holds(f.Name) }), err
}

// ofGrade hands out the rows of one grade, a page after the other. It tells whether there
// is to be more.
func (t *Tier) ofGrade(ctx context.Context, s tiers.Search, grade int, fn func(tiers.Ranked) bool) (more bool, err error) {
	after := best{order: lastOrder}
	for _, rows := range []*int{new(topRows), new(moreRows), nil} {
		l, sp := t.look(s)
		parts := l.ofGrade(grade)
		for i := range parts {
			parts[i] = `SELECT key, version, ` + topOrder + ` AS o` + foundWhere + parts[i]
		}
		query := `SELECT key, version, o FROM (` + strings.Join(parts, ` UNION ALL `) + `) f WHERE (o, key) < (` +
			l.parameter(after.order) + `, ` + l.parameter(after.Name) + `) ORDER BY o DESC, key DESC LIMIT ` + l.parameter(rows)
		page, err := ask(ctx, t, scanBest, query, l.args...)
		if err != nil {
			return false, err
		}
		for _, b := range page {
			r := tiers.Ranked{Found: b.Found, Grade: uint8(grade), Order: orderIn(b.order)} //nolint:gosec // at most tiers.MaxGrade
			if sp.holds(b.Name) && !fn(r) {
				return false, nil
			}
		}
		if rows == nil || len(page) < *rows {
			break
		}
		after = page[len(page)-1]
	}
	return true, nil
}
