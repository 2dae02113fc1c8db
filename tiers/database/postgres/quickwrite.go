package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
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
	var says [3]statement
	query, args := q.put(x)
	for i, sql := range []string{w.t.sql(query), commitNext, openNext} {
		if says[i], err = prepared(ctx, conn, sql, args...); err != nil {
			return false, fmt.Errorf("%w: %w", errNotCommitted, sure(ctx, err))
		}
		args = nil
	}
	p := conn.PgConn().StartPipeline(ctx)
	defer func() { _ = p.Close() }()
	says[0].send(p)
	says[1].send(p)
	p.SendPipelineSync()
	says[2].send(p)
	p.SendPipelineSync()
	if err := p.Flush(); err != nil {
		return false, sure(ctx, err)
	}
	n := 0
	err = answers(p, func(row [][]byte) error {
		n++
		return q.take(row)
	})
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
	if n > 0 {
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
	return n > 0, nil
}

// sure is the cause of an error that the end of the context has brought.
func sure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// statement is a prepared statement with its parameters.
type statement struct {
	name  string
	query pgx.ExtendedQueryBuilder
}

func prepared(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (s statement, err error) {
	sd, err := conn.Prepare(ctx, sql, sql)
	if err != nil {
		return s, err
	}
	s.name = sd.Name
	return s, s.query.Build(conn.TypeMap(), sd, args)
}

// send asks for rows as texts.
func (s *statement) send(p *pgconn.Pipeline) {
	p.SendQueryPrepared(s.name, s.query.ParamValues, s.query.ParamFormats, nil)
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

// put is the statement that stores all, in the order in which they came, the last of
// each key.
func (q *quick) put(x *tx) (query string, args []any) {
	n := len(q.all)
	args = []any{lockKey(x.w.t.schema, "writer"), x.w.t.now(), n}
	if n == 1 {
		p := q.all[0]
		args = append(args, p.Namespace, p.Category, p.Name, p.Codec, int64(p.Schema), p.flags, p.TTL.Microseconds(), p.value)
		if p.found == nil {
			return quickOne, append(args, nil, nil)
		}
		return quickOne, append(args, p.found.words, p.found.grams)
	}
	q.stored = make(map[tiers.Key]int, n)
	for i, p := range q.all {
		q.stored[p.Key] = i
	}
	cols, m := newColumns(4), len(q.stored)
	schema, ttl, back := make([]int64, 0, m), make([]int64, 0, m), make([]int64, 0, m)
	flags, values := make([]int32, 0, m), make([][]byte, 0, m)
	var words, grams []*string
	for i, p := range q.all {
		if q.stored[p.Key] != i {
			continue
		}
		cols.add(p.Namespace, p.Category, p.Name, p.Codec)
		schema, flags, ttl = append(schema, int64(p.Schema)), append(flags, p.flags), append(ttl, p.TTL.Microseconds())
		values, back = append(values, p.value), append(back, int64(n-1-i))
		if f := p.found; f != nil {
			words, grams = append(padded(words, len(values)-1), &f.words), append(padded(grams, len(values)-1), &f.grams)
		}
	}
	args = append(append(args, cols.args()...), schema, flags, ttl, values, back)
	if words == nil {
		return quickMany, args
	}
	return quickManyFound, append(args, padded(words, m), padded(grams, m))
}

// index is where the save of a key is that was stored.
func (q *quick) index(k tiers.Key) int {
	return q.stored[k] // 0 where there is one
}

// take takes what the server says of a row that it has stored: version, created and
// updated.
func (q *quick) take(row [][]byte) error {
	var n [3]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(string(row[i]), 10, 64); err != nil {
			return fmt.Errorf("the server answers %q: %w", row[i], err)
		}
	}
	if q.created == nil {
		q.created = make(map[int64]int64, len(q.all))
	}
	q.created[n[0]] = n[1]
	q.top, q.now = max(q.top, n[0]), n[2] // the last of all is stored
	return nil
}

// tell sets the results of all jobs.
func (q *quick) tell() {
	i := 0
	for _, j := range q.jobs {
		for n := range j.plain {
			j.stored(n, q.record(i))
			i++
		}
	}
}

// record is what was saved, without its value. One that another of the same group has
// replaced was there before it.
func (q *quick) record(i int) tiers.Record {
	version := func(i int) int64 { return q.top - int64(len(q.all)-1-i) }
	p, now := q.all[i], tiers.FromMicro(q.now)
	r := p.Record
	r.Deleted = false
	r.Version = tiers.Version(version(i)) //nolint:gosec // versions are below 2^62
	r.Updated, r.Created = now, now
	r.Expires = tiers.Deadline(now, p.TTL)
	if created, ok := q.created[version(q.index(p.Key))]; ok {
		r.Created = tiers.FromMicro(created)
	}
	return r
}

// recall finds out what the answer would have said, of a group that was committed. When
// others have replaced all of it since, nobody knows its versions any more.
func (q *quick) recall(ctx context.Context, x *tx) error {
	cols := newColumns(3)
	for _, p := range q.all {
		cols.add(p.Namespace, p.Category, p.Name)
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
	var v, created, updated int64
	q.created = map[int64]int64{}
	err = each(rows, []any{&k.Namespace, &k.Category, &k.Name, &v, &created, &updated}, func() {
		q.created[v] = created
		q.top, q.now = v+int64(len(q.all)-1-q.index(k)), updated
	})
	if err == nil && len(q.created) == 0 {
		err = errors.New("it was committed, and others have replaced what it stored since")
	}
	return err
}

// recallQuick completes the results of a group that went the quick way.
func (x *tx) recallQuick(ctx context.Context) {
	if err := x.quick.recall(ctx, x); err != nil {
		for _, j := range x.quick.jobs {
			j.err = engine.Unknown(err)
		}
		return
	}
	x.quick.tell()
}
