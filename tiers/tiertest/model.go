package tiertest

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/tiers"
)

func modelRules() []rule {
	return []rule{
		{
			name: "random programs agree with a plain map",
			why:  "what no case thought of shows in the difference to the simplest store there is",
			run:  randomPrograms, time: 3 * time.Minute, // to shrink a program that fails
		},
		{
			name: "a thousand concurrent operations agree with a plain map",
			why:  "each of many callers must see its own keys as if it were alone",
			run:  concurrentPrograms,
		},
	}
}

// programTime bounds how long programs are tried on a slow tier.
func programTime() time.Duration {
	if os.Getenv("CI") == "true" {
		return 20 * time.Second
	}
	return 2 * time.Second
}

// randomPrograms runs programs one after the other, each in a space of its own.
// Within go test rapid also shrinks one that fails, and keeps it.
func randomPrograms(t *T) {
	clock := tiers.SystemClock()
	start := clock.Now()
	var n atomic.Int64
	attempt := func(program []step) error {
		n.Add(1)
		m := newMachine(t, tiers.Space{Category: fmt.Sprintf("program.%d", n.Load())}, "", true)
		return m.run(program)
	}
	inTime := func() bool { return clock.Now().Sub(start) < programTime() }
	defer func() { t.Notef("%d programs in %v", n.Load(), clock.Now().Sub(start)) }()

	if !testing.Testing() { // rapid needs the flags of go test
		for seed := 1; seed <= 100 && inTime(); seed++ {
			program := programs().Example(seed)
			if err := attempt(program); err != nil {
				t.Fatalf("%v\nin the program\n%s", err, listing(program))
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
		program := programs().Draw(rt, "program")
		if found == "" && !inTime() {
			return // what was tried until now is enough
		}
		if err := attempt(program); err != nil {
			// The message to rapid is always the same, versions and all left
			// out, or it would take each attempt to shrink for another fault.
			found = fmt.Sprintf("%v\nin the program\n%s", err, listing(program))
			rt.Fatalf("the tier differs from the map")
		}
	})
}

// concurrentPrograms runs a program for each of several callers, who share a
// space but no key.
func concurrentPrograms(t *T) {
	const callers, rounds = 8, 3
	var done atomic.Int64
	t.workers(callers, func(worker int) {
		for round := range rounds {
			prefix := fmt.Sprintf("caller%d/%d/", worker, round)
			program := longPrograms().Example(1000*worker + round + 1)
			m := newMachine(t, tiers.Space{Category: category}, prefix, false)
			if err := m.run(program); err != nil {
				t.Fatalf("caller %d: %v\nin the program\n%s", worker, err, listing(program))
			}
			done.Add(int64(len(program)))
		}
	})
	t.Notef("%d operations", done.Load())
}

func listing(program []step) string {
	var b strings.Builder
	for i, s := range program {
		fmt.Fprintf(&b, "%3d. %v\n", i+1, s)
	}
	return b.String()
}

// rapidTB lets rapid report to the rule that runs it.
type rapidTB struct{ t *T }

var _ rapid.TB = (*rapidTB)(nil)

// Logf leaves out what was drawn: the program is shown anyway.
func (r *rapidTB) Logf(string, ...any)          {}
func (r *rapidTB) Log(...any)                   {}
func (r *rapidTB) Helper()                      {}
func (r *rapidTB) Name() string                 { return r.t.name }
func (r *rapidTB) Skipf(f string, args ...any)  { r.t.Fatalf("skipped: "+f, args...) }
func (r *rapidTB) Skip(args ...any)             { r.t.Fatalf("skipped: %s", fmt.Sprint(args...)) }
func (r *rapidTB) SkipNow()                     { r.t.Fatalf("skipped") }
func (r *rapidTB) Errorf(f string, args ...any) { r.t.Errorf(f, args...) }
func (r *rapidTB) Error(args ...any)            { r.t.Errorf("%s", fmt.Sprint(args...)) }
func (r *rapidTB) Fatalf(f string, args ...any) { r.t.Fatalf(f, args...) }
func (r *rapidTB) Fatal(args ...any)            { r.t.Fatalf("%s", fmt.Sprint(args...)) }
func (r *rapidTB) FailNow()                     { panic(stop{}) }
func (r *rapidTB) Fail()                        { r.t.Errorf("a random program failed") }

func (r *rapidTB) Failed() bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	return len(r.t.faults) > 0
}
