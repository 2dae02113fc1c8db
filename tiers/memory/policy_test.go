package memory

import "testing"

// newEntries makes entries that the policy knows nothing of yet.
func newEntries(n int) []*entry {
	out := make([]*entry, n)
	for i := range out {
		out[i] = &entry{id: scramble(uint64(i + 1))}
	}
	return out
}

func feedPolicy(p *policy, e *entry, cost int64) {
	p.put(e, cost)
	e.fed = cost
}

func TestEveryEntryIsInThePolicyOrNamedAsLeft(t *testing.T) {
	p, err := newPolicy(100_000)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	es := newEntries(20_000)
	left := map[*entry]bool{}
	for i, e := range es {
		feedPolicy(p, e, 10)
		if i%chunk == chunk-1 || i == len(es)-1 {
			for _, e := range p.wait() {
				left[e] = true
			}
		}
	}
	in := 0
	for i, e := range es {
		if p.has(e) == left[e] {
			t.Fatalf("entry %d: in is %v, left is %v", i, p.has(e), left[e])
		}
		if p.has(e) {
			in++
		}
	}
	if in != 10_000 {
		t.Errorf("%d entries of cost 10 are in, want 10000", in)
	}
}

func TestLimitHoldsAfterUpdatesThatOutgrowIt(t *testing.T) {
	p, err := newPolicy(1000)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	es := newEntries(100)
	for _, e := range es {
		feedPolicy(p, e, 10)
	}
	p.wait()
	for _, e := range es {
		feedPolicy(p, e, 100) // an update, which ristretto lets through
	}
	p.limit(1000)
	p.wait()
	if left := p.cache.RemainingCost(); left < 0 {
		t.Errorf("the policy holds %d more than it may", -left)
	}
	p.limit(150)
	if left := p.cache.RemainingCost(); left < 0 {
		t.Errorf("with a lower limit it holds %d more than it may", -left)
	}
	p.limit(-1)
	for i, e := range es {
		if p.has(e) {
			t.Errorf("entry %d is in though nothing may be", i)
		}
	}
}

func TestScrambleIsOneToOne(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range uint64(200_000) {
		if h := scramble(i); seen[h] {
			t.Fatalf("%d collides", i)
		} else {
			seen[h] = true
		}
	}
}
