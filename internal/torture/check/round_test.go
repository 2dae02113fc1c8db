package check_test

import (
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/torture/check"
)

const (
	a  = "database/bank.database/a"
	b  = "file/bank.file/b"
	o  = "cache/own.cache/k"
	o2 = "file/own.file/k"
	p  = "cache/pool.cache/p"
)

func stored(op string, n int64, v uint64) check.Stored {
	return check.Stored{Value: check.Value{Op: op, N: n}, Version: v}
}

// transfer is the begin of a transaction that goes on from two values.
func transfer(op, wasA string, na int64, wasB string, nb int64) check.Line {
	return check.Line{
		Kind: check.Try, Op: op, Tx: true,
		Reads:  []check.Cell{{At: a, Op: wasA, N: na, Version: uint64(na)}, {At: b, Op: wasB, N: nb, Version: uint64(nb)}},
		Writes: []check.Cell{{At: a, N: na + 1}, {At: b, N: nb + 1}},
	}
}

func end(kind, op string, versions ...uint64) check.Line {
	l := check.Line{Kind: kind, Op: op}
	for _, v := range versions {
		l.Writes = append(l.Writes, check.Cell{Version: v})
	}
	return l
}

func write(op string, tx bool, cells ...check.Cell) check.Line {
	return check.Line{Kind: check.Try, Op: op, Tx: tx, Writes: cells}
}

func TestWhatTheCheckerFinds(t *testing.T) {
	start := check.State{a: stored("0", 1, 1), b: stored("0", 1, 1)}
	at := func(key string) check.Cell { return check.Cell{At: key} }
	for _, c := range []struct {
		why           string
		log           []check.Line
		before, after check.State
		outcomes      map[string]bool
		says          string // kinds of the faults, in order
	}{
		{"nothing happened", nil, start, start, nil, ""},
		{"a transaction is whole", []check.Line{transfer("1", "0", 1, "0", 1), end(check.Ack, "1")}, start, check.State{a: stored("1", 2, 2), b: stored("1", 2, 2)}, nil, ""},
		{"one on its way is whole", []check.Line{transfer("1", "0", 1, "0", 1)}, start, check.State{a: stored("1", 2, 2), b: stored("1", 2, 2)}, nil, ""},
		{"one on its way is not there", []check.Line{transfer("1", "0", 1, "0", 1)}, start, start, nil, ""},
		{"one on its way is there in part", []check.Line{transfer("1", "0", 1, "0", 1)}, start, check.State{a: stored("1", 2, 2), b: stored("0", 1, 1)}, nil, "partial"},
		{"an acknowledged one is gone", []check.Line{transfer("1", "0", 1, "0", 1), end(check.Ack, "1")}, start, start, nil, "lost"},
		{"an acknowledged one is there in part", []check.Line{transfer("1", "0", 1, "0", 1), end(check.Ack, "1")}, start, check.State{a: stored("0", 1, 1), b: stored("1", 2, 2)}, nil, "lost"},
		{"a refused one is there", []check.Line{transfer("1", "0", 1, "0", 1), end(check.Fail, "1")}, start, check.State{a: stored("1", 2, 2), b: stored("1", 2, 2)}, nil, "undead"},
		{"two were acknowledged and one is lost", []check.Line{transfer("1", "0", 1, "0", 1), end(check.Ack, "1"), transfer("2", "0", 1, "0", 1), end(check.Ack, "2")}, start, check.State{a: stored("2", 2, 3), b: stored("2", 2, 3)}, nil, "lost"},
		{"an account went back", nil, check.State{a: stored("5", 6, 6)}, check.State{a: stored("4", 5, 7)}, nil, "lost version"},
		{"a value that nobody wrote", nil, start, check.State{a: stored("x", 2, 2), b: stored("0", 1, 1)}, nil, "alien"},
		{"a version that did not grow", []check.Line{transfer("1", "0", 1, "0", 1), end(check.Ack, "1")}, start, check.State{a: stored("1", 2, 1), b: stored("1", 2, 2)}, nil, "version version"},
		{"a read of what was never committed", []check.Line{transfer("1", "0", 1, "0", 1), end(check.Fail, "1"), {Kind: check.Seen, Op: "r", Reads: []check.Cell{{At: a, Op: "1", N: 2, Version: 2}}}}, start, start, nil, "dirty"},
		{"the outcome is right", []check.Line{transfer("1", "0", 1, "0", 1)}, start, start, map[string]bool{"1": false}, ""},
		{"the outcome says committed and nothing is there", []check.Line{transfer("1", "0", 1, "0", 1)}, start, start, map[string]bool{"1": true}, "outcome"},
		{"the outcome says rolled back and it is there", []check.Line{transfer("1", "0", 1, "0", 1)}, start, check.State{a: stored("1", 2, 2), b: stored("1", 2, 2)}, map[string]bool{"1": false}, "outcome"},
		{
			"each has read what the other overwrote", []check.Line{
				{Kind: check.Try, Op: "1", Tx: true, Reads: []check.Cell{{At: a, Op: "0", N: 1}, {At: b, Op: "0", N: 1}}, Writes: []check.Cell{{At: a, N: 2}}},
				end(check.Ack, "1"),
				{Kind: check.Try, Op: "2", Tx: true, Reads: []check.Cell{{At: a, Op: "0", N: 1}, {At: b, Op: "0", N: 1}}, Writes: []check.Cell{{At: b, N: 2}}},
				end(check.Ack, "2"),
			}, start, check.State{a: stored("1", 2, 2), b: stored("2", 2, 2)}, nil, "serial",
		},

		{"a save is there", []check.Line{write("1", false, at(o)), end(check.Ack, "1", 5)}, nil, check.State{o: stored("1", 0, 5)}, nil, ""},
		{"a later one was on its way", []check.Line{write("1", false, at(o)), end(check.Ack, "1", 5), write("2", false, at(o))}, nil, check.State{o: stored("2", 0, 6)}, nil, ""},
		{"an acknowledged save is gone", []check.Line{write("1", false, at(o)), end(check.Ack, "1", 5)}, nil, nil, nil, "lost"},
		{"an older one is back", []check.Line{write("1", false, at(o)), end(check.Ack, "1", 5), write("2", false, at(o)), end(check.Ack, "2", 6)}, nil, check.State{o: stored("1", 0, 5)}, nil, "lost"},
		{"a deleted one is gone", []check.Line{write("1", false, check.Cell{At: o, Deleted: true}), end(check.Ack, "1")}, check.State{o: stored("0", 0, 4)}, nil, nil, ""},
		{"a deleted one is back", []check.Line{write("1", false, check.Cell{At: o, Deleted: true}), end(check.Ack, "1")}, check.State{o: stored("0", 0, 4)}, check.State{o: stored("0", 0, 4)}, nil, "lost"},
		{"a delete that was refused took effect", []check.Line{write("1", false, check.Cell{At: o, Deleted: true}), end(check.Fail, "1")}, check.State{o: stored("0", 0, 4)}, nil, nil, "lost"},
		{"another version than was acknowledged", []check.Line{write("1", false, at(o)), end(check.Ack, "1", 5)}, nil, check.State{o: stored("1", 0, 6)}, nil, "version"},
		{"a transaction over two own keys is there in part", []check.Line{write("1", true, at(o), at(o2))}, nil, check.State{o: stored("1", 0, 5)}, nil, "partial"},
		{"a transaction has deleted one and not saved the other", []check.Line{write("1", true, check.Cell{At: o, Deleted: true}, at(o2))}, check.State{o: stored("0", 0, 4)}, nil, nil, "partial"},
		{"a transaction has saved one and not deleted the other", []check.Line{write("1", true, check.Cell{At: o, Deleted: true}, at(o2))}, check.State{o: stored("0", 0, 4)}, check.State{o: stored("0", 0, 4), o2: stored("1", 0, 4)}, nil, "partial"},
		{"a condition that did not hold", []check.Line{write("1", false, check.Cell{At: o, Cond: true}), end(check.Ack, "1", 5)}, nil, nil, nil, "condition"},
		{"what the worker saw itself", []check.Line{{Kind: check.Bad, Text: "the sum is 3"}}, nil, nil, nil, "audit"},

		{"the highest version wins", []check.Line{write("1", false, at(p)), write("2", false, at(p)), end(check.Ack, "2", 7), end(check.Ack, "1", 6)}, nil, check.State{p: stored("2", 0, 7)}, nil, ""},
		{"a lower one won", []check.Line{write("1", false, at(p)), write("2", false, at(p)), end(check.Ack, "2", 7), end(check.Ack, "1", 6)}, nil, check.State{p: stored("1", 0, 6)}, nil, "lost"},
		{"two have one version", []check.Line{write("1", false, at(p)), write("2", false, at(p)), end(check.Ack, "2", 7), end(check.Ack, "1", 7)}, nil, check.State{p: stored("2", 0, 7)}, nil, "version version"},
	} {
		var got []string
		faults := check.Round{Logs: [][]check.Line{c.log}, Before: c.before, After: c.after, Outcomes: c.outcomes}.Check()
		for _, f := range faults {
			got = append(got, f.Kind)
		}
		if strings.Join(got, " ") != c.says {
			t.Errorf("%s: it says %v, want %q", c.why, faults, c.says)
		}
	}
}

func TestMoneyIsConserved(t *testing.T) {
	after := check.State{a: {Value: check.Value{Op: "0", Sum: 60}}, b: {Value: check.Value{Op: "0", Sum: 39}}}
	r := check.Round{Before: after, After: after, Money: 100}
	if got := r.Check(); len(got) != 1 || got[0].Kind != "money" {
		t.Errorf("one is missing, and it says %v", got)
	}
	r.Money = 99
	if got := r.Check(); len(got) != 0 {
		t.Errorf("nothing is missing, and it says %v", got)
	}
}

func TestALineThatWasCutOffIsNone(t *testing.T) {
	lines, err := check.ParseLog([]byte("{\"k\":\"try\",\"op\":\"1\"}\n{\"k\":\"ack\",\"o"))
	if err != nil || len(lines) != 1 {
		t.Errorf("got %v and %v", lines, err)
	}
	if _, err := check.ParseLog([]byte("{\"k\":\"t\n{\"k\":\"ack\",\"op\":\"1\"}\n")); err == nil {
		t.Error("a broken line in the middle was taken")
	}
}
