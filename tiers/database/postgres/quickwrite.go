package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// errNotCommitted says that the server has ended the connection before it came to the
// commit.
var errNotCommitted = errors.New("the server ended the connection before the commit")

// writeQuick stores and commits in one exchange, answers the callers, and opens the next
// transaction meanwhile. It tells whether the turn was this writer's: if not, nothing
// was stored, and nobody has an answer.
func (x *tx) writeQuick() (free bool, err error) {
	w, q := x.w, x.quick
	ctx, cancel := w.limited()
	defer cancel()
	conn := w.conn.Conn()
	query := q.put(&w.params, x)
	var names [3]string
	for i, sql := range [...]string{w.t.sql(query), commitNext, openNext} {
		sd, err := conn.Prepare(ctx, sql, sql)
		if err != nil {
			return false, fmt.Errorf("%w: %w", errNotCommitted, sure(ctx, err))
		}
		names[i] = sd.Name
	}
	p := conn.PgConn().StartPipeline(ctx)
	defer func() { _ = p.Close() }()
	values, formats := w.params.all()
	p.SendQueryPrepared(names[0], values, formats, nil) // rows come as texts
	p.SendQueryPrepared(names[1], nil, nil, nil)
	p.SendPipelineSync()
	p.SendQueryPrepared(names[2], nil, nil, nil)
	p.SendPipelineSync()
	if err := p.Flush(); err != nil {
		return false, sure(ctx, err)
	}
	err = answers(p, q.take)
	if err != nil {
		if codeOf(err) != "" && ended(err) { // it has said so in the place of an answer
			return false, fmt.Errorf("%w: %w", errNotCommitted, err)
		}
		return false, sure(ctx, err)
	}
	for range 2 { // the commit, and the end of the exchange
		if err := answers(p, nil); err != nil {
			return false, sure(ctx, err)
		}
	}
	if q.n > 0 {
		q.tell()
		answerAll(q.jobs, nil)
	}
	next := &opened{life: x.life}
	err = answers(p, func(row [][]byte) error {
		next.xid = string(row[0])
		return nil
	})
	if err == nil {
		err = p.Close()
	}
	if err == nil {
		w.open = next
	} else {
		w.drop()
	}
	return q.n > 0, nil
}

// sure is the cause of an error that the end of the context has brought.
func sure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// answers reads what the server says to one request.
func answers(p *pgconn.Pipeline, row func([][]byte) error) error {
	got, err := p.GetResults()
	if err != nil {
		return err
	}
	rows, ok := got.(*pgconn.ResultReader)
	if !ok {
		return nil // the end of an exchange
	}
	for rows.NextRow() && err == nil {
		err = row(rows.Values())
	}
	_, closed := rows.Close()
	return errors.Join(err, closed)
}

// put is the statement that stores all, the last of each key, with its parameters.
func (q *quick) put(to *params, x *tx) (query string) {
	n, schema := len(q.all), x.w.t.schema
	q.rows, q.n = make([]stored, n), 0
	q.sort()
	to.reset()
	to.bigint(lockKey(schema, "writer"))
	to.bigint(lockKey(schema, "versions"))
	if now := x.w.t.now(); now != nil {
		to.bigint(*now)
	} else {
		to.nothing()
	}
	to.bigint(int64(n))
	if n == 1 {
		q.putOne(to)
		return quickOne
	}
	m := len(q.order)
	of := func(i int) *packed { return q.all[q.order[i]] }
	to.texts(m, func(i int) string { return of(i).Namespace })
	to.texts(m, func(i int) string { return of(i).Category })
	to.texts(m, func(i int) string { return of(i).Name })
	to.texts(m, func(i int) string { return of(i).Codec })
	to.bigints(m, func(i int) int64 { return int64(of(i).Schema) })
	to.integers(m, func(i int) int32 { return of(i).flags })
	to.bigints(m, func(i int) int64 { return of(i).TTL.Microseconds() })
	to.values(m, func(i int) []byte { return of(i).value })
	to.bigints(m, func(i int) int64 { return int64(n - 1 - q.order[i]) })
	if !slices.ContainsFunc(q.order, func(i int) bool { return q.all[i].found != nil }) {
		return quickMany
	}
	to.someTexts(m, func(i int) *string { return of(i).found.asWords() })
	to.someTexts(m, func(i int) *string { return of(i).found.asGrams() })
	return quickManyFound
}

func (q *quick) putOne(to *params) {
	p := q.all[0]
	for _, s := range []string{p.Namespace, p.Category, p.Name, p.Codec} {
		to.text(s)
	}
	to.bigint(int64(p.Schema))
	to.integer(p.flags)
	to.bigint(p.TTL.Microseconds())
	to.bytes(p.value)
	if p.found == nil {
		to.nothing()
		to.nothing()
		return
	}
	to.text(p.found.words)
	to.text(p.found.grams)
}

// sort finds the last save of each key, and their order.
func (q *quick) sort() {
	all := make([]int, 3*len(q.all))
	q.last, q.order = all[:len(q.all)], all[len(q.all):len(q.all)]
	all = all[2*len(q.all):]
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(a, b int) int {
		k, l := q.all[a], q.all[b]
		return cmp.Or(strings.Compare(k.Name, l.Name), strings.Compare(k.Category, l.Category), strings.Compare(k.Namespace, l.Namespace), a-b)
	})
	for n, i := range all {
		if n+1 < len(all) && q.all[all[n+1]].Key == q.all[i].Key {
			continue
		}
		for ; n >= 0 && q.all[all[n]].Key == q.all[i].Key; n-- {
			q.last[all[n]] = i
		}
		q.order = append(q.order, i)
	}
}

// take takes what the server says of the next row that it has stored.
func (q *quick) take(row [][]byte) error {
	var n [4]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(string(row[i]), 10, 64); err != nil {
			return fmt.Errorf("the server answers %q: %w", row[i], err)
		}
	}
	q.rows[q.order[q.n]] = stored{n[0], n[1], n[2], n[3]}
	q.n++
	return nil
}

// tell sets the results of all jobs that are known.
func (q *quick) tell() {
	i := 0
	for _, j := range q.jobs {
		for n := range j.plain {
			if j.err == nil {
				j.stored(n, q.record(i))
			}
			i++
		}
	}
}

// record is what was saved, without its value. One that another of the same group has
// replaced was there before it.
func (q *quick) record(i int) tiers.Record {
	p, last := q.all[i], q.last[i]
	row := q.rows[last]
	r := p.Record
	r.Deleted = false
	r.Version = version(row.version - int64(last-i))
	r.Created, r.Updated, r.Expires = tiers.FromMicro(row.created), tiers.FromMicro(row.updated), tiers.FromMicro(row.expires)
	if i != last {
		r.Expires = tiers.Deadline(r.Updated, p.TTL)
	}
	return r
}

// recall finds out what the answer would have said, of a group that was committed. Of
// what others have replaced since nobody knows the version any more.
func (q *quick) recall(ctx context.Context, x *tx) error {
	cols, at := newColumns(3), make(map[tiers.Key]int, len(q.all))
	for i, p := range q.all {
		cols.add(p.Namespace, p.Category, p.Name)
		at[p.Key] = i
	}
	xid, err := strconv.ParseUint(x.xid, 10, 64)
	if err != nil {
		return err
	}
	// Rows have the lower half of the number.
	rows, err := x.w.t.write.Query(ctx, x.w.t.sql(quickFind), append(cols.args(), strconv.FormatUint(xid&(1<<32-1), 10))...)
	if err != nil {
		return err
	}
	var k tiers.Key
	var s stored
	q.rows = make([]stored, len(q.all))
	return each(rows, []any{&k.Namespace, &k.Category, &k.Name, &s.version, &s.created, &s.updated, &s.expires}, func() { q.rows[at[k]] = s })
}

// recallQuick completes the results of a group that went the quick way.
func (x *tx) recallQuick(ctx context.Context) {
	q := x.quick
	err := q.recall(ctx, x)
	if err == nil && slices.ContainsFunc(q.last, func(i int) bool { return q.rows[i].version == 0 }) {
		err = errors.New("it was committed, and others have replaced what it stored since")
	}
	i := 0
	for _, j := range q.jobs {
		for range j.plain {
			if err != nil && q.rows[q.last[i]].version == 0 {
				j.err = engine.Unknown(err)
			}
			i++
		}
	}
	q.tell()
}
