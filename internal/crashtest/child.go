package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sagestore/sagestore/tiers"
)

// Exit codes of a child.
const (
	exitUnknown = 90 // no such store
	exitOpen    = 91 // the store does not open
)

// report is the descriptor on which a child tells what happened to it.
const report = 3

// keysOf is how many keys a caller has to itself.
const keysOf = 4

func keyOf(caller, i int) tiers.Key {
	return tiers.Key{Category: "crash.test", Name: fmt.Sprintf("caller-%d/key-%d", caller, i%keysOf)}
}

// deletes tells whether operation n on a key is a delete rather than a save.
func deletes(n int) bool { return n%5 == 0 }

func child(s Store) int {
	ctx := context.Background()
	pipe := os.NewFile(report, "report")
	base, _ := strconv.Atoi(os.Getenv(envBase))
	callers, _ := strconv.Atoi(os.Getenv(envCallers))
	ops, _ := strconv.Atoi(os.Getenv(envOps))

	t, err := s.Open(ctx, os.Getenv(envDir))
	if err != nil {
		tell(pipe, Event{Kind: "open", Text: err.Error()})
		return exitOpen
	}
	tell(pipe, Event{Kind: "ready"})

	var failed atomic.Bool
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			w := writer{t: t, out: pipe, caller: c, base: base, failed: &failed}
			if b, ok := tiers.As[tiers.Batcher](t); ok && b.Atomic() && c == 0 && callers > 1 {
				w.batch = b
			}
			if committer, system, ok := decides(t, c, callers); ok {
				w.commit, w.system = committer, system
			}
			for i := 0; ops == 0 || i < ops; i++ {
				w.step(ctx, i)
			}
		})
	}
	wg.Wait()
	// Like a power cut for the process: nothing is flushed, nothing is closed.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	return 0
}

// writer is one caller of a child.
type writer struct {
	t      tiers.Tier
	batch  tiers.Batcher   // not nil: all keys of the caller in one batch
	commit tiers.Committer // not nil: all keys of the caller, and rows, in one transaction
	system tiers.System    // then
	out    io.Writer
	caller int
	base   int
	failed *atomic.Bool // somebody has got an error
}

func (w *writer) step(ctx context.Context, i int) {
	late := w.failed.Load()
	if w.batch != nil {
		w.stepBatch(ctx, w.base+1+i, late)
		return
	}
	if w.commit != nil {
		w.stepCommit(ctx, w.base+1+i, late)
		return
	}
	k, n := keyOf(w.caller, i), w.base+1+i/keysOf
	e := Event{Kind: "ack", Key: k.Name, N: n, Late: late}
	var err error
	if deletes(n) {
		_, err = w.t.Delete(ctx, k, tiers.Cond{})
	} else {
		var r tiers.Record
		r, err = w.t.Save(ctx, newRecord(k, n), tiers.Cond{})
		e.Version = r.Version
	}
	w.tell(e, err)
}

func (w *writer) stepBatch(ctx context.Context, n int, late bool) {
	rs := make([]tiers.Record, keysOf)
	for j := range rs {
		rs[j] = newRecord(keyOf(w.caller, j), n)
	}
	saved, err := w.batch.SaveMany(ctx, rs, nil)
	for j := range rs {
		e := Event{Kind: "ack", Key: rs[j].Name, N: n, Late: late}
		if err == nil {
			e.Version = saved[j].Version
		}
		w.tell(e, err)
	}
}

func (w *writer) tell(e Event, err error) {
	if err != nil {
		w.failed.Store(true)
		e.Kind, e.Class, e.Text = "err", classOf(err), err.Error()
	}
	tell(w.out, e)
}

// tell reports an event; one write of less than a page is atomic on a pipe.
func tell(w io.Writer, e Event) { _, _ = io.WriteString(w, e.String()+"\n") }

// newRecord makes the value of operation n, of a size that varies.
func newRecord(k tiers.Key, n int) tiers.Record {
	size := rand.IntN(1500) //nolint:gosec // not a secret
	if n%11 == 0 {
		size += 40_000
	}
	pad := strings.Repeat("sagestore ", size/10+1)[:size]
	return tiers.Record{Key: k, Codec: "json", Schema: 1, Value: encode(k.Name, n, pad)}
}

// classOf names the sentinel of an error.
func classOf(err error) string {
	for _, c := range []struct {
		name string
		err  error
	}{
		{Unknown, tiers.ErrCommitUnknown},
		{Full, tiers.ErrFull},
		{Unavailable, tiers.ErrUnavailable},
		{Corrupt, tiers.ErrCorrupt},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return Other
}
