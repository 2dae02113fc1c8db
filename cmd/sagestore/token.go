package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
)

// tokenQuery is what the flags of token ask for.
type tokenQuery struct {
	by, since, until, session, model string
	from, to                         time.Time
}

// defaultSince is how far back token looks.
const defaultSince = "30d"

func (a *app) tokenCommand() *cobra.Command {
	var q tokenQuery
	c := &cobra.Command{
		Use:   "token",
		Short: "Show how many tokens were used",
		Long: `Show how many tokens were used, from the ledger that programs keep with package
knowledge: a line for each day, with a bar, and a total; or for each model or
session, the largest first. Days are in UTC.`,
		Example: `  sagestore token
  sagestore token --by model --since 2026-11-01 --until 2026-12-01
  sagestore token --session s-1 --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := notEmpty(c, "by", "since", "until", "session", "model"); err != nil {
				return err
			}
			return a.with(c.Context(), func(m *manager.Manager) error {
				if err := refuseCategory(m, "knowledge.usage"); err != nil {
					return err
				}
				if err := q.resolve(manager.ClockOf(m).Now()); err != nil {
					return err
				}
				rows, err := q.rows(c.Context(), knowledge.New(m))
				if err != nil {
					return err
				}
				return a.printTokens(q, rows)
			})
		},
	}
	c.Flags().StringVar(&q.by, "by", "day", "one line for each `what`: day, model or session")
	c.Flags().StringVar(&q.since, "since", defaultSince, "from this `time`: a day such as 2026-11-01, or a duration back from now, or never for all")
	c.Flags().StringVar(&q.until, "until", "", "up to this `time`, not included")
	c.Flags().StringVar(&q.session, "session", "", "only of the session of this `id`")
	c.Flags().StringVar(&q.model, "model", "", "only of the model of this `name`")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// resolve checks the flags and finds the times that they mean.
func (q *tokenQuery) resolve(now time.Time) (err error) {
	if !slices.Contains([]string{"day", "model", "session"}, q.by) {
		return usagef("it takes day, model or session", "--by %q: there are no such sums", q.by)
	}
	if q.from, err = dayOf("--since", q.since, now); err == nil {
		q.to, err = dayOf("--until", q.until, now)
	}
	if err == nil && !q.to.IsZero() && !q.from.Before(q.to) {
		return usagef("--until is the first day that is left out", "--since %s is not before --until %s", q.since, q.until)
	}
	return err
}

// dayOf reads a day, or how long ago it was; the zero time is no bound.
func dayOf(flag, text string, now time.Time) (time.Time, error) {
	if text == "" || text == string(config.Never) {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, nil
	}
	d, ok := config.TTL(text).Duration()
	if !ok {
		return time.Time{}, usagef("write a day, such as 2026-11-01, or how long ago: 24h, 30d, 2w, never", "%s %q is no day", flag, text)
	}
	return now.UTC().Add(-d).Truncate(24 * time.Hour), nil
}

// tokenRow is a line of the answer.
type tokenRow struct {
	Name       string `json:"name"`
	Input      int64  `json:"input"`
	Output     int64  `json:"output"`
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	Total      int64  `json:"total"`
	Count      int64  `json:"count"`
}

func (r *tokenRow) add(u knowledge.Usage) {
	r.Input += u.Input
	r.Output += u.Output
	r.CacheRead += u.CacheRead
	r.CacheWrite += u.CacheWrite
	r.Total += u.Total()
	r.Count += u.Count
}

// rows sums up the ledger: days in order, all else the largest first.
func (q *tokenQuery) rows(ctx context.Context, k *knowledge.Store) ([]tokenRow, error) {
	rows, at := []tokenRow{}, map[string]int{}
	for u, err := range k.Ledger(ctx, q.from, q.to) {
		if err != nil {
			return nil, err
		}
		if q.session != "" && u.Session != q.session || q.model != "" && u.Model != q.model {
			continue
		}
		name := map[string]string{"day": u.At.Format(time.DateOnly), "model": u.Model, "session": u.Session}[q.by]
		i, there := at[name]
		if !there {
			i = len(rows)
			at[name], rows = i, append(rows, tokenRow{Name: name})
		}
		rows[i].add(u)
	}
	if q.by != "day" {
		slices.SortFunc(rows, func(a, b tokenRow) int { return cmp.Or(cmp.Compare(b.Total, a.Total), strings.Compare(a.Name, b.Name)) })
	}
	return rows, nil
}
