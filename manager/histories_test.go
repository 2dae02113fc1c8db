package manager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// A history is what several processes did to a few keys of one category, each
// step with the times between which it was done.
type step struct {
	Client     int
	Op         string // get, save, delete, if, swap
	Key        int
	Value      int           // what is saved; of swap into both of its keys
	If         tiers.Version // of if
	Begin, End int64

	Found, Found2 seenValue // what was there: of get; of both keys of swap
	Version       tiers.Version
	Existed, Met  bool // of delete; of if
}

type seenValue struct {
	Value   int
	Version tiers.Version // 0: absent
}

const (
	historyKeys    = 3
	historySteps   = 40
	historyCallers = 2
)

func historyKey(i int) string { return fmt.Sprintf("k%d", i) }

// play does random steps and prints them. With onlyTx each is a transaction.
func play(ctx context.Context, m *manager.Manager) error {
	var process int
	if _, err := fmt.Sscan(os.Getenv("SAGESTORE_TEST_PROCESS"), &process); err != nil {
		return err
	}
	c := manager.For[int](m, os.Getenv("SAGESTORE_TEST_CATEGORY"))
	onlyTx := os.Getenv("SAGESTORE_TEST_TX") != ""
	var (
		g    sync.WaitGroup
		mu   sync.Mutex
		errs []error
		out  = json.NewEncoder(os.Stdout)
	)
	for caller := range historyCallers {
		g.Go(func() {
			client := process*historyCallers + caller
			seen := make([]tiers.Version, historyKeys)
			for i := range historySteps {
				s := step{
					Client: client, Key: rand.IntN(historyKeys), Value: client*1000 + i + 1,
					Op: []string{"get", "save", "delete", "if", "swap", "swap"}[rand.IntN(6)],
				}
				s.If = seen[s.Key]
				s.Begin = tiers.SystemClock().Now().UnixNano()
				err := s.do(ctx, m, c, onlyTx)
				s.End = tiers.SystemClock().Now().UnixNano()
				seen[s.Key] = max(s.Found.Version, s.Version)
				mu.Lock()
				errs = append(errs, err, out.Encode(s))
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	g.Wait()
	return errors.Join(errs...)
}

func (s *step) do(ctx context.Context, m *manager.Manager, c *manager.Collection[int], onlyTx bool) error {
	if s.Op != "swap" && !onlyTx {
		saved, err := s.one(ctx, c)
		s.Version = saved
		return err
	}
	var tx *manager.Tx
	err := m.Update(ctx, func(now *manager.Tx) (err error) {
		tx = now
		if s.Op == "swap" {
			return s.swap(ctx, c.In(now))
		}
		_, err = s.one(ctx, c.In(now))
		return err
	}, manager.WithRetry(10_000))
	if tx != nil {
		s.Version = tx.Version(c.Category(), historyKey(s.Key))
	}
	return err
}

// one does a step on one key.
func (s *step) one(ctx context.Context, c *manager.Collection[int]) (saved tiers.Version, err error) {
	key := historyKey(s.Key)
	switch s.Op {
	case "get":
		s.Found, err = look(ctx, c, key)
	case "save":
		var e manager.Entry[int]
		e, err = c.SaveEntry(ctx, key, s.Value)
		saved = e.Version
	case "delete":
		s.Existed, err = c.Delete(ctx, key)
	default:
		var e manager.Entry[int]
		e, err = c.SaveEntry(ctx, key, s.Value, manager.IfVersion(s.If))
		s.Met = err == nil
		if errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrExists) {
			return 0, nil
		}
		saved = e.Version
	}
	return saved, err
}

// swap reads two keys and saves both.
func (s *step) swap(ctx context.Context, c *manager.Collection[int]) (err error) {
	if s.Found, err = look(ctx, c, historyKey(s.Key)); err != nil {
		return err
	}
	other := historyKey((s.Key + 1) % historyKeys)
	if s.Found2, err = look(ctx, c, other); err != nil {
		return err
	}
	return errors.Join(c.Save(ctx, historyKey(s.Key), s.Value), c.Save(ctx, other, s.Value))
}

func look(ctx context.Context, c *manager.Collection[int], key string) (seenValue, error) {
	e, err := c.Entry(ctx, key)
	if errors.Is(err, tiers.ErrNotFound) {
		return seenValue{}, nil
	}
	return seenValue{e.Value, e.Version}, err
}

// keys is what a history's keys hold. The version of what a swap saved into its
// second key is not known to it: it is found out by who reads it.
type keys [historyKeys]struct {
	seenValue
	unknown bool
}

func (k *keys) matches(i int, found seenValue) bool {
	at := &k[i]
	if at.unknown && found.Version != 0 && found.Value == at.Value {
		*at = struct {
			seenValue
			unknown bool
		}{seenValue: found}
	}
	return !at.unknown && at.seenValue == found
}

func (k *keys) set(i, value int, v tiers.Version) {
	k[i].seenValue, k[i].unknown = seenValue{value, v}, v == 0
}

var historyModel = porcupine.Model{
	Init: func() any { return keys{} },
	Step: func(state, input, _ any) (bool, any) {
		k, s := state.(keys), input.(step)
		here := &k[s.Key]
		absent := here.Version == 0 && !here.unknown
		switch s.Op {
		case "get":
			return k.matches(s.Key, s.Found), k
		case "save":
			k.set(s.Key, s.Value, s.Version)
			return true, k
		case "delete":
			ok := s.Existed == !absent
			k[s.Key] = keys{}[0]
			return ok, k
		case "if":
			if !s.Met {
				// A version that is not known can only be that of a swap which nobody
				// has read, so the condition asked for another.
				return here.unknown || here.Version != s.If, k
			}
			ok := !here.unknown && here.Version == s.If
			k.set(s.Key, s.Value, s.Version)
			return ok, k
		}
		other := (s.Key + 1) % historyKeys
		ok := k.matches(s.Key, s.Found) && k.matches(other, s.Found2)
		k.set(s.Key, s.Value, s.Version)
		k.set(other, s.Value, 0)
		return ok, k
	},
	Equal: func(a, b any) bool { return a == b },
}

func TestHistoriesOfThreeProcessesAreLinearizable(t *testing.T) {
	t.Parallel()
	for why, test := range map[string]struct {
		category string
		onlyTx   bool
	}{
		"the database, plain calls and transactions": {"session.preferences", false},
		"the database, transactions":                 {"session.preferences", true},
		"files, transactions":                        {"config", true},
		"the cache on files, transactions":           {"session.history", true},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			checkHistory(t, record(t, test.category, test.onlyTx))
		})
	}
}

func checkHistory(t *testing.T, steps []step) {
	t.Helper()
	ops := make([]porcupine.Operation, len(steps))
	for i, s := range steps {
		ops[i] = porcupine.Operation{ClientId: s.Client, Input: s, Call: s.Begin, Return: s.End}
	}
	if want := 3 * historyCallers * historySteps; len(ops) != want {
		t.Fatalf("%d steps were recorded, want %d", len(ops), want)
	}
	if got := porcupine.CheckOperationsTimeout(historyModel, ops, time.Minute); got != porcupine.Ok {
		for _, s := range steps {
			t.Logf("%+v", s)
		}
		t.Errorf("there is no order in which this could have happened one by one: %v", got)
	}
	lied := append([]porcupine.Operation{}, ops...)
	for i := range lied {
		if s := steps[i]; s.Op == "swap" && s.Found.Version != 0 {
			s.Found.Value += 500 // nobody has saved that
			lied[i].Input = s
			break
		}
	}
	if porcupine.CheckOperationsTimeout(historyModel, lied, time.Minute) == porcupine.Ok {
		t.Error("the model accepts a value that was never saved")
	}
}

// record lets three processes play on one store.
func record(t *testing.T, category string, onlyTx bool) []step {
	t.Helper()
	dir := t.TempDir()
	outs := make([]bytes.Buffer, 3)
	var g sync.WaitGroup
	for i := range outs {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=play", "SAGESTORE_TEST_DIR="+dir,
			"SAGESTORE_TEST_CATEGORY="+category, fmt.Sprint("SAGESTORE_TEST_PROCESS=", i))
		if onlyTx {
			cmd.Env = append(cmd.Env, "SAGESTORE_TEST_TX=1")
		}
		var faults bytes.Buffer
		cmd.Stdout, cmd.Stderr = &outs[i], &faults
		g.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, faults.String())
			}
		})
	}
	g.Wait()
	var steps []step
	for i := range outs {
		for d := json.NewDecoder(&outs[i]); d.More(); {
			var s step
			if err := d.Decode(&s); err != nil {
				t.Fatal(err)
			}
			steps = append(steps, s)
		}
	}
	return steps
}
