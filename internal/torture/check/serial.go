package check

import (
	"maps"
	"slices"
	"strings"
)

// looks checks what was read of accounts: only what was committed, each number
// with one version, and higher versions with higher numbers.
func (w *work) looks() {
	type look struct {
		op      string
		version uint64
	}
	seen := map[string]map[int64]look{}
	note := func(at string, n int64, op string, v uint64, who string) {
		if v == 0 || Class(at) != "bank" || w.Lossy[Tier(at)] {
			return
		}
		if Tier(at) == "memory" {
			at = who + " " + at // each process has its own
		}
		if seen[at] == nil {
			seen[at] = map[int64]look{}
		}
		was, again := seen[at][n]
		if again && was != (look{op, v}) {
			w.fault("version", "%s: number %d was seen as version %d of %s and as version %d of %s", at, n, was.version, was.op, v, op)
		}
		seen[at][n] = look{op, v}
	}
	for _, s := range []State{w.Before, w.After} {
		for at, r := range s {
			note(at, r.N, r.Op, r.Version, "")
		}
	}
	for i, log := range w.Logs {
		who := string(rune('A' + i%26))
		for _, l := range log {
			for _, c := range l.Reads {
				if l.Kind != Try && l.Kind != Seen {
					continue
				}
				note(c.At, c.N, c.Op, c.Version, who)
				w.committed(c, l.Op)
			}
		}
	}
	for at, all := range seen {
		last := uint64(0)
		for _, n := range slices.Sorted(maps.Keys(all)) {
			if v := all[n].version; v <= last {
				w.fault("version", "%s: number %d has version %d, an earlier one %d", at, n, v, last)
			}
			last = all[n].version
		}
	}
}

// committed tells whether what was read is part of the chain.
func (w *work) committed(c Cell, reader string) {
	chain := w.chains[c.At]
	if chain == nil || c.Op == "" {
		return
	}
	if !slices.Contains(chain, c.Op) {
		w.fault("dirty", "%s read number %d of %s in %s, which was never committed", reader, c.N, c.Op, c.At)
	}
}

// serial looks for an order in which the transactions could have run one after
// the other: what each has read and written says who was before whom, and that
// must not go round in a circle.
func (w *work) serial() {
	edges := map[string]map[string]string{}
	edge := func(from, to, why string) {
		if from == "" || to == "" || from == to || w.ops[from] == nil || w.ops[to] == nil {
			return
		}
		if edges[from] == nil {
			edges[from] = map[string]string{}
		}
		edges[from][to] = why
	}
	place := map[string]map[string]int{}
	for at, chain := range w.chains {
		place[at] = map[string]int{}
		for i, op := range chain {
			place[at][op] = i
			if i > 0 {
				edge(chain[i-1], op, at)
			}
		}
	}
	for _, o := range w.order {
		if !o.Tx || o.status != Ack && !w.visible(o) {
			continue
		}
		for _, c := range o.Reads {
			chain := w.chains[c.At]
			i, ok := place[c.At][c.Op]
			if !ok {
				continue
			}
			edge(c.Op, o.Op, c.At)
			if i+1 < len(chain) {
				edge(o.Op, chain[i+1], c.At)
			}
		}
	}
	if circle := cycle(edges); circle != nil {
		var text strings.Builder
		for i, op := range circle {
			next := circle[(i+1)%len(circle)]
			text.WriteString(op + " before (" + edges[op][next] + ") ")
		}
		w.fault("serial", "no order fits: %s%s", text.String(), circle[0])
	}
}

func (w *work) visible(o *operation) bool {
	for _, v := range o.there {
		if v == there {
			return true
		}
	}
	return false
}

// cycle answers a circle of a graph, or nil.
func cycle(edges map[string]map[string]string) []string {
	const (
		open = 1
		done = 2
	)
	state := map[string]int{}
	for _, start := range slices.Sorted(maps.Keys(edges)) {
		if state[start] != 0 {
			continue
		}
		type frame struct {
			op   string
			next []string
		}
		stack := []frame{{start, slices.Sorted(maps.Keys(edges[start]))}}
		state[start] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.next) == 0 {
				state[top.op] = done
				stack = stack[:len(stack)-1]
				continue
			}
			op := top.next[0]
			top.next = top.next[1:]
			switch state[op] {
			case open:
				var circle []string
				for _, f := range stack {
					if f.op == op || circle != nil {
						circle = append(circle, f.op)
					}
				}
				return circle
			case 0:
				state[op] = open
				stack = append(stack, frame{op, slices.Sorted(maps.Keys(edges[op]))})
			}
		}
	}
	return nil
}
