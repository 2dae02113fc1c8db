package check

import (
	"cmp"
	"maps"
	"slices"
)

// Round is what happened to a store between two looks at it.
type Round struct {
	Logs     [][]Line // of each worker, in the order in which it wrote
	Before   State    // what was stored when the first worker began
	After    State    // what is stored now
	Commits  map[string]bool
	Outcomes map[string]bool // what the store says of transactions: true is committed
	Money    int64           // sum over all accounts; 0: nothing is known of it
	// Lossy are tiers that may have lost what they had acknowledged, such as a
	// Redis that was killed and does not sync.
	Lossy map[string]bool

	forgot bool // what was committed may be gone, and what was read with it
}

// operation is something that a worker did.
type operation struct {
	Line
	status string // Ack, Fail, Unknown, or empty: it was on its way
	end    []Cell // of an Ack: the versions
	there  map[string]verdict
}

// verdict tells whether a write can be seen in what is stored.
type verdict int

const (
	hidden verdict = iota // something later may stand over it
	there
	missing
)

func (o *operation) version(i int) uint64 {
	if i < len(o.end) {
		return o.end[i].Version
	}
	return 0
}

// work is a Round while it is looked at.
type work struct {
	Round
	ops    map[string]*operation
	order  []*operation
	chains map[string][]string // of bank keys: the writers, from that of Before on
	faults []Fault
}

// Check answers what is wrong.
func (r Round) Check() []Fault {
	w := &work{Round: r, ops: map[string]*operation{}, chains: map[string][]string{}}
	for _, log := range r.Logs {
		w.read(log)
	}
	for _, at := range w.keys() {
		if w.Lossy[Tier(at)] {
			continue
		}
		switch Class(at) {
		case "bank":
			w.chain(at)
		case "own":
			w.owned(at)
		case "pool":
			w.pool(at)
		}
	}
	for _, o := range w.order {
		w.whole(o)
	}
	if !w.forgot {
		w.looks()
	}
	w.serial()
	w.money()
	return w.faults
}

func (w *work) fault(kind, format string, args ...any) {
	w.faults = append(w.faults, faultf(kind, format, args...))
}

func (w *work) read(log []Line) {
	for _, l := range log {
		switch l.Kind {
		case Try:
			if w.ops[l.Op] != nil {
				w.fault("log", "operation %s was begun twice", l.Op)
			}
			o := &operation{Line: l, there: map[string]verdict{}}
			w.ops[l.Op] = o
			w.order = append(w.order, o)
		case Ack, Fail, Unknown:
			if o := w.ops[l.Op]; o != nil {
				o.status, o.end, o.Text = l.Kind, l.Writes, l.Text
			} else if l.Kind != Fail { // which may have failed before it came to write
				w.fault("log", "operation %s ended and was never begun", l.Op)
			}
		case Bad:
			w.fault("audit", "%s", l.Text)
		}
	}
}

// keys answers every durable key that is stored, was stored, or was written.
func (w *work) keys() []string {
	all := map[string]bool{}
	for at := range w.Before {
		all[at] = true
	}
	for at := range w.After {
		all[at] = true
	}
	for _, o := range w.order {
		for _, c := range o.Writes {
			if Tier(c.At) != "memory" {
				all[c.At] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// writers answers the operations that want to write a key, in the order of the
// logs, each with the number of the write.
func (w *work) writers(at string, fn func(o *operation, i int)) {
	for _, o := range w.order {
		for i := range o.Writes {
			if o.Writes[i].At == at {
				fn(o, i)
			}
		}
	}
}

// chain goes from what is stored back to what was stored.
func (w *work) chain(at string) {
	before, after := w.Before[at], w.After[at]
	cur, chain := after, []string{}
	for cur.Op != before.Op || cur.N != before.N {
		chain = append(chain, cur.Op)
		if cur.N <= before.N {
			w.fault("lost", "%s holds number %d of %s; it held number %d of %s", at, after.N, after.Op, before.N, before.Op)
			return
		}
		o := w.ops[cur.Op]
		if o == nil {
			w.fault("alien", "%s: number %d is of operation %q, which no worker began", at, cur.N, cur.Op)
			return
		}
		write, read := find(o.Writes, at), find(o.Reads, at)
		if write == nil || read == nil || write.N != cur.N || read.N != cur.N-1 {
			w.fault("alien", "%s: operation %s did not write number %d", at, cur.Op, cur.N)
			return
		}
		o.there[at] = there
		cur = Stored{Value: Value{Op: read.Op, N: read.N}}
	}
	slices.Reverse(chain)
	w.chains[at] = append([]string{before.Op}, chain...)
	w.writers(at, func(o *operation, _ int) {
		if o.there[at] != there {
			o.there[at] = missing
		}
	})
	switch {
	case after.Op == before.Op && after.Version != before.Version:
		w.fault("version", "%s: %s has version %d now and had %d", at, after.Op, after.Version, before.Version)
	case after.Op != before.Op && after.Version <= before.Version:
		w.fault("version", "%s: number %d has version %d, number %d had %d", at, after.N, after.Version, before.N, before.Version)
	}
}

func find(cells []Cell, at string) *Cell {
	for i := range cells {
		if cells[i].At == at {
			return &cells[i]
		}
	}
	return nil
}

// owned compares a key with what its only writer did.
func (w *work) owned(at string) {
	before, after := w.Before[at], w.After[at]
	_, isThere := w.After[at]
	type step struct {
		o *operation
		i int
	}
	var steps []step
	last := -1 // the last one that was acknowledged
	version := before.Version
	w.writers(at, func(o *operation, i int) {
		if o.Writes[i].Cond {
			if o.status == Ack {
				w.fault("condition", "%s: operation %s was acknowledged under a condition that did not hold", at, o.Op)
			}
			if isThere && after.Op == o.Op {
				w.fault("condition", "%s: operation %s is stored under a condition that did not hold", at, o.Op)
			}
			return
		}
		steps = append(steps, step{o, i})
		if o.status != Ack {
			return
		}
		last = len(steps) - 1
		if v := o.version(i); v != 0 {
			if v <= version {
				w.fault("version", "%s: operation %s got version %d, an earlier one has %d", at, o.Op, v, version)
			}
			version = v
		}
	})
	final := -1 // the step that is stored; -1: what was there before
	for i, s := range steps {
		if isThere && !s.o.Writes[s.i].Deleted && s.o.Op == after.Op {
			final = i
		}
	}
	if isThere && final < 0 && after.Op != before.Op {
		w.fault("alien", "%s is of operation %q, which no worker began", at, after.Op)
		return
	}
	if !isThere {
		w.absent(at, len(steps), last, before.Op == "", func(i int) (*operation, bool) {
			return steps[i].o, steps[i].o.Writes[steps[i].i].Deleted
		})
		return
	}
	for i, s := range steps {
		switch {
		case i == final:
			s.o.there[at] = there
			if v := s.o.version(s.i); v != 0 && v != after.Version {
				w.fault("version", "%s: operation %s was acknowledged with version %d and has %d", at, s.o.Op, v, after.Version)
			}
		case i > final:
			s.o.there[at] = missing
		}
	}
	if final > last && after.Version <= version && after.Op != before.Op {
		w.fault("version", "%s: operation %s has version %d, an earlier one has %d", at, after.Op, after.Version, version)
	}
}

// absent is owned for a key that is not there: some delete has to explain it.
func (w *work) absent(at string, n, last int, never bool, step func(i int) (o *operation, deletes bool)) {
	lastDelete, candidates := -1, 0
	for i := range n {
		if o, deletes := step(i); deletes && o.status != Fail {
			lastDelete = i
			if i >= last {
				candidates++
			}
		}
	}
	for i := range n {
		if o, deletes := step(i); !deletes && i > lastDelete {
			o.there[at] = missing
		}
	}
	switch {
	case last < 0 && never:
		return
	case candidates == 1:
		o, _ := step(lastDelete)
		o.there[at] = there
		return
	case candidates > 1:
		return
	}
	if last < 0 { // else the loss is found with the operation
		w.fault("lost", "%s is gone; it held %s", at, w.Before[at].Op)
	}
}

// pool compares a key that many write without looking: the highest version wins.
func (w *work) pool(at string) {
	before, after := w.Before[at], w.After[at]
	highest, by := before.Version, before.Op
	acked := before.Op != ""
	w.writers(at, func(o *operation, i int) {
		if o.status != Ack {
			return
		}
		acked = true
		if v := o.version(i); v > highest {
			highest, by = v, o.Op
		} else if v != 0 && v == highest {
			w.fault("version", "%s: %s and %s have version %d both", at, by, o.Op, v)
		}
	})
	if after.Op == "" {
		if acked {
			w.fault("lost", "%s is gone; %s had been acknowledged with version %d", at, by, highest)
		}
		return
	}
	o := w.ops[after.Op]
	switch {
	case after.Version < highest:
		w.fault("lost", "%s holds version %d of %s; %s had been acknowledged with version %d", at, after.Version, after.Op, by, highest)
	case after.Version == highest && after.Op != by:
		w.fault("version", "%s: version %d is of %s; %s had been acknowledged with it", at, highest, after.Op, by)
	case o == nil && after.Op != before.Op:
		w.fault("alien", "%s is of operation %q, which no worker began", at, after.Op)
	case o != nil:
		o.there[at] = there
	}
}

// whole compares what an operation was told with what can be seen of it.
func (w *work) whole(o *operation) {
	var in, out []string
	saves := false // who only deletes may have had nothing to do
	for _, c := range o.Writes {
		if Tier(c.At) == "memory" {
			continue
		}
		saves = saves || !c.Deleted
		switch o.there[c.At] {
		case there:
			in = append(in, c.At)
		case missing:
			out = append(out, c.At)
		case hidden:
		}
	}
	told := cmp.Or(o.status, "on its way")
	switch {
	case o.status == Ack && len(out) > 0:
		w.fault("lost", "%s was acknowledged; it is missing in %v and there in %v", o.Op, out, in)
	case o.status == Fail && len(in) > 0:
		w.fault("undead", "%s was refused (%s) and is there in %v", o.Op, o.Text, in)
	case o.Tx && len(in) > 0 && len(out) > 0:
		w.fault("partial", "%s (%s) is there in %v and missing in %v", o.Op, told, in, out)
	}
	if !o.Tx || !saves {
		return
	}
	for what, says := range map[string]map[string]bool{"the table of commits": w.Commits, "the store's outcome": w.Outcomes} {
		committed, known := says[o.Op]
		switch {
		case says == nil, !known && what != "the table of commits":
		case committed && (o.status == Fail || len(out) > 0):
			w.fault("outcome", "%s says that %s (%s) was committed; it is missing in %v", what, o.Op, told, out)
		case !committed && (o.status == Ack || len(in) > 0):
			w.fault("outcome", "%s says that %s (%s) was not committed; it is there in %v", what, o.Op, told, in)
		}
	}
}

// money adds up the accounts.
func (w *work) money() {
	if w.Money == 0 {
		return
	}
	sum := int64(0)
	for at, s := range w.After {
		if Class(at) == "bank" {
			if w.Lossy[Tier(at)] {
				return
			}
			sum += s.Sum
		}
	}
	if sum != w.Money {
		w.fault("money", "the accounts hold %d together, not %d", sum, w.Money)
	}
}

// Forgetful answers the round as it may be for a store that was told not to wait
// for its disk: what was acknowledged is like what was on its way.
func (r Round) Forgetful() Round {
	logs := make([][]Line, len(r.Logs))
	for i, log := range r.Logs {
		for _, l := range log {
			if l.Kind != Ack && l.Kind != Unknown {
				logs[i] = append(logs[i], l)
			}
		}
	}
	r.Logs, r.forgot = logs, true
	return r
}
