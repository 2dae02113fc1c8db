package tiertest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/tiers"
)

func commitModelRules() []rule {
	return []rule{
		{
			name: "random transactions agree with plain maps",
			why:  "what no case thought of shows in the difference to the simplest store there is",
			run:  randomCommits, time: 3 * time.Minute, // to shrink a program that fails
		},
	}
}

// txStep is a step of a program. A commit reads as of some steps ago, as a
// transaction does that takes its time.
type txStep struct {
	Kind    txKind
	Lag     int
	Reads   []int
	Ranges  []txRange
	Writes  []txWrite
	RowAsk  []int
	RowList []txRange
	Rows    []txWrite
	By      time.Duration
}

// txKind is what a step does.
type txKind string

const (
	txCommit  txKind = "commit"
	txSave    txKind = "save"
	txDelete  txKind = "delete"
	txAppend  txKind = "append"
	txDone    txKind = "done"
	txAdvance txKind = "advance"
	txReopen  txKind = "reopen"
)

type txRange struct {
	Prefix, After, End string
	Reverse            bool
}

func (r txRange) query(s tiers.Space) tiers.Query {
	return tiers.Query{Namespace: s.Namespace, Category: s.Category, Prefix: r.Prefix, After: r.After, Reverse: r.Reverse}
}

// holds tells whether a name is in the range.
func (r txRange) holds(name string) bool {
	switch {
	case !strings.HasPrefix(name, r.Prefix):
		return false
	case r.Reverse:
		return (r.After == "" || name < r.After) && name >= r.End
	}
	return name > r.After && (r.End == "" || name <= r.End)
}

type txWrite struct {
	Key      int
	Deleted  bool
	TTL      time.Duration // of a record
	Reserved int           // of a row: how far above what the tier has held of the key, 0 for not at all
}

func (s txStep) String() string {
	switch s.Kind {
	case txAdvance:
		return fmt.Sprintf("advance %v", s.By)
	case txCommit:
		return fmt.Sprintf("commit as of %d steps ago: reads %v lists %v writes %+v; rows: reads %v lists %v writes %+v",
			s.Lag, s.Reads, s.Ranges, s.Writes, s.RowAsk, s.RowList, s.Rows)
	case txSave, txDelete, txAppend:
		return fmt.Sprintf("%s %+v %+v", s.Kind, s.Writes, s.Rows)
	default:
		return string(s.Kind)
	}
}

func txKeys() *rapid.Generator[int] { return rapid.IntRange(0, programKeys-1) }

func txRanges() *rapid.Generator[txRange] {
	edge := rapid.SampledFrom([]string{"", "", programKey(1), programKey(3)})
	return rapid.Custom(func(t *rapid.T) txRange {
		return txRange{
			Prefix:  rapid.SampledFrom([]string{"", "", "a", "a/"}).Draw(t, "prefix"),
			After:   edge.Draw(t, "after"),
			End:     edge.Draw(t, "end"),
			Reverse: rapid.Bool().Draw(t, "reverse"),
		}
	})
}

func txWrites() *rapid.Generator[txWrite] {
	return rapid.Custom(func(t *rapid.T) txWrite {
		return txWrite{
			Key:      txKeys().Draw(t, "key"),
			Deleted:  rapid.IntRange(0, 3).Draw(t, "deleted") == 0,
			TTL:      rapid.SampledFrom([]time.Duration{0, 0, time.Minute, time.Hour}).Draw(t, "ttl"),
			Reserved: rapid.SampledFrom([]int{0, 0, 1, 1000}).Draw(t, "reserved"),
		}
	})
}

func txPrograms() *rapid.Generator[[]txStep] {
	kinds := rapid.SampledFrom([]txKind{
		txCommit, txCommit, txCommit, txCommit, txCommit, txCommit, txCommit, txCommit,
		txSave, txSave, txDelete, txAppend, txDone, txDone, txAdvance, txReopen,
	})
	few := func(n int) *rapid.Generator[[]txRange] { return rapid.SliceOfN(txRanges(), 0, n) }
	distinct := func(low, high int) *rapid.Generator[[]txWrite] {
		return rapid.SliceOfNDistinct(txWrites(), low, high, func(w txWrite) int { return w.Key })
	}
	step := rapid.Custom(func(t *rapid.T) txStep {
		s := txStep{Kind: kinds.Draw(t, "kind")}
		switch s.Kind {
		case txSave, txDelete:
			s.Writes = distinct(1, 1).Draw(t, "writes")
		case txAppend:
			s.Rows = distinct(1, 2).Draw(t, "rows")
		case txAdvance:
			s.By = rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 30 * time.Second, 2 * time.Hour}).Draw(t, "by")
		case txCommit:
			s.Lag = rapid.IntRange(0, 3).Draw(t, "lag")
			s.Reads = rapid.SliceOfN(txKeys(), 0, 2).Draw(t, "reads")
			s.Ranges = few(1).Draw(t, "ranges")
			s.Writes = distinct(0, 3).Draw(t, "writes")
			s.RowAsk = rapid.SliceOfN(txKeys(), 0, 2).Draw(t, "row reads")
			s.RowList = few(1).Draw(t, "row ranges")
			s.Rows = distinct(0, 2).Draw(t, "rows")
		case txDone, txReopen:
		}
		return s
	})
	return rapid.OneOf(rapid.SliceOfN(step, 1, 10), rapid.SliceOfN(step, 25, 60), rapid.SliceOfN(step, 25, 60))
}

// randomCommits runs programs one after the other, each in a space and for a tier
// of its own. Within go test rapid also shrinks one that fails, and keeps it.
func randomCommits(t *T) {
	clock := tiers.SystemClock()
	start := clock.Now()
	var n, passed, refused atomic.Int64
	attempt := func(program []txStep) error {
		m := newTxMachine(t, n.Add(1))
		err := m.run(program)
		passed.Add(m.passed)
		refused.Add(m.refused)
		return err
	}
	inTime := func() bool { return clock.Now().Sub(start) < programTime() }
	defer func() {
		t.Notef("%d programs in %v: %d commits passed, %d were refused", n.Load(), clock.Now().Sub(start), passed.Load(), refused.Load())
	}()
	show := func(err error, program []txStep) string {
		var b strings.Builder
		for i, s := range program {
			fmt.Fprintf(&b, "%3d. %v\n", i+1, s)
		}
		return fmt.Sprintf("%v\nin the program\n%s", err, b.String())
	}
	if !testing.Testing() { // rapid needs the flags of go test
		for seed := 1; seed <= 100 && inTime(); seed++ {
			program := txPrograms().Example(seed)
			if err := attempt(program); err != nil {
				t.Fatalf("%s", show(err, program))
			}
		}
		return
	}
	var found string
	defer func() {
		if found != "" {
			t.Errorf("%s", found)
		}
	}()
	rapid.Check(&rapidTB{t}, func(rt *rapid.T) {
		program := txPrograms().Draw(rt, "program")
		if found == "" && !inTime() {
			return // what was tried until now is enough
		}
		if err := attempt(program); err != nil {
			found = show(err, program)
			rt.Fatalf("the store differs from the maps")
		}
	})
}

// txState is all that a program has made, as of one moment.
type txState struct {
	at      time.Time
	seq     uint64
	records map[string]tiers.Record
	rows    map[string]tiers.Row    // that wait
	there   map[string]tiers.Record // in the other tier, as far as rows have made it; also deletes
	written map[string]uint64       // Seq of the last row of a key
}

func (s *txState) clone() *txState {
	c := *s
	c.records, c.rows, c.there, c.written = maps.Clone(s.records), maps.Clone(s.rows), maps.Clone(s.there), maps.Clone(s.written)
	return &c
}

func (s *txState) version(name string) tiers.Version {
	if r, ok := s.records[name]; ok && r.Live(s.at) {
		return r.Version
	}
	return 0
}

// rowVersion is what a reader of the other tier sees, row first.
func (s *txState) rowVersion(name string) tiers.Version {
	r, ok := s.there[name]
	if row, waits := s.rows[name]; waits {
		r, ok = row.Record, true
	}
	if !ok || r.Deleted {
		return 0
	}
	return r.Version
}

func (s *txState) sum(r txRange) uint64 {
	names := slices.Sorted(maps.Keys(s.records))
	if r.Reverse {
		slices.Reverse(names)
	}
	var d tiers.Digest
	for _, name := range names {
		if v := s.version(name); v != 0 && r.holds(name) {
			d.Add(name, v)
		}
	}
	return d.Sum()
}

// txMachine runs a program and compares.
type txMachine struct {
	t               *T
	d               *desk
	space           tiers.Space
	tier            string
	now             *txState
	past            []*txState
	passed, refused int64
}

func newTxMachine(t *T, n int64) *txMachine {
	m := &txMachine{t: t, d: t.desk(), space: tiers.Space{Category: fmt.Sprintf("commits.%d", n)}, tier: fmt.Sprintf("tier-%d", n)}
	m.now = &txState{at: t.now(), records: map[string]tiers.Record{}, rows: map[string]tiers.Row{}, there: map[string]tiers.Record{}, written: map[string]uint64{}}
	m.now.seq = m.d.sequence()
	return m
}

func (m *txMachine) key(i int) tiers.Key {
	return tiers.Key{Namespace: m.space.Namespace, Category: m.space.Category, Name: programKey(i)}
}

func (m *txMachine) run(program []txStep) error {
	for i, s := range program {
		m.now.at = m.t.now()
		m.now.seq = m.d.sequence()
		m.past = append(m.past, m.now)
		m.now = m.now.clone()
		err := m.step(s)
		if err == nil {
			m.now.at = m.t.now()
			err = m.compare()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (m *txMachine) step(s txStep) error {
	switch s.Kind {
	case txCommit:
		return m.commit(s)
	case txSave:
		r := m.record(s.Writes[0])
		r.Deleted = false
		saved, err := m.d.tier.Save(m.t.ctx, r, tiers.Cond{})
		m.now.records[r.Name] = saved
		return err
	case txDelete:
		k := m.key(s.Writes[0].Key)
		_, err := m.d.tier.Delete(m.t.ctx, k, tiers.Cond{})
		delete(m.now.records, k.Name)
		return err
	case txAppend:
		rows := m.rows(s.Rows)
		out, err := m.d.s.Append(m.t.ctx, rows, nil, 0)
		if err != nil {
			return err
		}
		return m.noteRows(rows, out)
	case txDone:
		rows := slices.Collect(maps.Values(m.now.rows))
		for name, row := range m.now.rows {
			m.now.there[name] = row.Record
		}
		clear(m.now.rows)
		return m.d.s.Done(m.t.ctx, rows)
	case txAdvance:
		m.t.Clock.Advance(s.By)
	case txReopen:
		if m.t.reopened() {
			m.d = m.t.desk()
		}
	}
	return nil
}

func (m *txMachine) record(w txWrite) tiers.Record {
	r := raw(m.key(w.Key), fmt.Sprint(len(m.past)))
	r.Deleted, r.TTL = w.Deleted, w.TTL
	return r
}

func (m *txMachine) rows(ws []txWrite) (rows []tiers.Row) {
	for _, w := range ws {
		row := tiers.Row{Record: m.record(w), Tier: m.tier, Owner: "owner"}
		row.TTL = 0
		if w.Reserved > 0 {
			row.Reserved = true
			// above all that the tier has held of the key; what waits may be above it
			row.Version = max(m.now.there[row.Name].Version, 1_000_000) + tiers.Version(w.Reserved)
		}
		rows = append(rows, row)
	}
	return rows
}

// noteRows checks what rows became and notes it.
func (m *txMachine) noteRows(asked, got []tiers.Row) error {
	for i, row := range got {
		old, waits := m.now.rows[row.Name]
		want := asked[i].Version
		if waits {
			want = max(want, old.Version+1)
		}
		if row.Key != asked[i].Key || row.Seq <= m.now.seq || asked[i].Reserved && row.Version != want || row.Version < want || row.Version == 0 {
			return fmt.Errorf("a row with version %d has become version %d with seq %d; what waited has %d", asked[i].Version, row.Version, row.Seq, old.Version)
		}
		m.now.rows[row.Name], m.now.written[row.Name] = row, row.Seq
	}
	return nil
}

func (m *txMachine) commit(s txStep) error {
	began := m.past[max(len(m.past)-1-s.Lag, 0)]
	c := tiers.Commit{ID: m.d.id(), Since: began.seq}
	m.now.at = m.t.now()
	fresh := true
	for _, i := range s.Reads {
		k := m.key(i)
		c.Reads = append(c.Reads, tiers.Read{Key: k, Version: began.version(k.Name)})
		fresh = fresh && began.version(k.Name) == m.now.version(k.Name)
	}
	for _, r := range s.Ranges {
		c.Ranges = append(c.Ranges, tiers.Range{Query: r.query(m.space), End: r.End, Sum: began.sum(r)})
		fresh = fresh && began.sum(r) == m.now.sum(r)
	}
	for _, i := range s.RowAsk {
		k := m.key(i)
		c.RowReads = append(c.RowReads, tiers.RowRead{Tier: m.tier, Read: tiers.Read{Key: k, Version: began.rowVersion(k.Name)}})
		fresh = fresh && began.rowVersion(k.Name) == m.now.rowVersion(k.Name)
	}
	for _, r := range s.RowList {
		c.RowRanges = append(c.RowRanges, tiers.RowRange{Tier: m.tier, Range: tiers.Range{Query: r.query(m.space), End: r.End}})
		for name, seq := range m.now.written {
			fresh = fresh && (seq <= began.seq || !r.holds(name))
		}
	}
	for _, w := range s.Writes {
		c.Saves = append(c.Saves, m.record(w))
	}
	c.Rows = m.rows(s.Rows)
	out, err := m.d.c.Commit(m.t.ctx, c)
	changes := len(c.Saves)+len(c.Rows) > 0
	committed, outcomeErr := m.d.c.Outcome(m.t.ctx, c.ID)
	if outcomeErr != nil || committed != (changes && fresh) {
		return fmt.Errorf("the outcome is %v with %s, want %v", committed, said(outcomeErr), changes && fresh)
	}
	if !fresh {
		m.refused++
		if !errors.Is(err, tiers.ErrConflict) {
			return fmt.Errorf("the commit answers %s, want a conflict", said(err))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("the commit answers %w, but nothing has changed", err)
	}
	m.passed++
	for i, r := range c.Saves {
		if r.Deleted {
			delete(m.now.records, r.Name)
			continue
		}
		if out.Saves[i].Version <= m.now.records[r.Name].Version {
			return fmt.Errorf("%s has version %d after %d", show(r.Key), out.Saves[i].Version, m.now.records[r.Name].Version)
		}
		m.now.records[r.Name] = out.Saves[i]
	}
	return m.noteRows(c.Rows, out.Rows)
}

// compare looks at every key.
func (m *txMachine) compare() error {
	for i := range programKeys {
		k := m.key(i)
		r, err := m.d.tier.Load(m.t.ctx, k)
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return err
		}
		if want := m.now.version(k.Name); r.Version != want {
			return fmt.Errorf("%s has version %d, want %d", show(k), r.Version, want)
		}
		row, err := m.d.s.Pending(m.t.ctx, m.tier, k)
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return err
		}
		if want := m.now.rows[k.Name]; row.Seq != want.Seq || row.Version != want.Version || row.Deleted != want.Deleted || string(row.Value) != string(want.Value) && !want.Deleted {
			return fmt.Errorf("for %s waits %d with version %d, want %d with %d", show(k), row.Seq, row.Version, want.Seq, want.Version)
		}
	}
	return nil
}
