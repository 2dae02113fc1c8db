package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

const (
	accounts = 64
	balance  = 100
)

func account(i int) string { return fmt.Sprintf("account-%02d", i) }

// openAccounts opens a store whose accounts hold the same in all.
func openAccounts(t *testing.T, path string) *Tier {
	t.Helper()
	tier := mustOpen(t, Config{Path: path, Synchronous: Normal})
	var rs []tiers.Record
	for i := range accounts {
		rs = append(rs, plainJSON(account(i), strconv.Itoa(balance)))
		for j := range 30 { // so that they are in pages which are not read at once
			rs = append(rs, plainJSON(fmt.Sprintf("between-%02d-%02d", i, j), strconv.Quote(strings.Repeat("x", 1000))))
		}
	}
	if _, err := tier.SaveMany(t.Context(), rs, nil); err != nil {
		t.Fatal(err)
	}
	return tier
}

// move moves one from an account to the next, whole or not at all.
func move(ctx context.Context, tier *Tier, from int) error {
	ks := []tiers.Key{key(account(from % accounts)), key(account((from + 1) % accounts))}
	rs, err := tier.LoadMany(ctx, ks)
	if err != nil {
		return err
	}
	a, _ := strconv.Atoi(string(rs[0].Value))
	b, _ := strconv.Atoi(string(rs[1].Value))
	conds := []tiers.Cond{tiers.If(rs[0].Version), tiers.If(rs[1].Version)}
	rs[0].Value, rs[1].Value = []byte(strconv.Itoa(a-1)), []byte(strconv.Itoa(b+1))
	_, err = tier.SaveMany(ctx, rs, conds)
	if errors.Is(err, tiers.ErrConflict) {
		return nil
	}
	return err
}

// keepMoving runs writers until stop is called.
func keepMoving(t *testing.T, tier *Tier, writers int) (moved *atomic.Int64, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	moved = new(atomic.Int64)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w * 7; ctx.Err() == nil; i++ {
				if err := move(context.WithoutCancel(ctx), tier, i); err != nil {
					t.Error(err)
					return
				}
				moved.Add(1)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return moved, stop
}

func sumOfAccounts(t *testing.T, tier *Tier) (sum, n int) {
	t.Helper()
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "session.preferences", Prefix: "account-"}) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := strconv.Atoi(string(r.Value))
		if err != nil {
			t.Fatal(err)
		}
		sum += v
		n++
	}
	return sum, n
}

func copyTo(t *testing.T, f tiers.Frozen, path string) {
	t.Helper()
	var b bytes.Buffer
	if err := f.Copy(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestACopyIsTheInstantOfItsFreezeWhateverIsWrittenMeanwhile(t *testing.T) {
	inFileAndMemory(t, func(t *testing.T, path string) {
		t.Helper()
		tier := openAccounts(t, path)
		moved, stop := keepMoving(t, tier, 4)
		for round := range 5 {
			var mark tiers.Version
			before := moved.Load()
			f, err := tier.Freeze(t.Context(), func(context.Context) error {
				mark = tiers.Version(round + 1)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if mark == 0 {
				t.Fatal("what was to run during the freeze did not")
			}
			// The copy begins when others have written a lot.
			for waited := 0; moved.Load() < before+100 && waited < 10_000; waited++ {
				time.Sleep(time.Millisecond)
			}
			to := filepath.Join(t.TempDir(), "copy.db")
			copyTo(t, f, to)
			content, err := f.Content(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(to); err != nil || st.Size() != content.Size {
				t.Errorf("the copy is %v, %v; want %d bytes", st, err, content.Size)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if moved.Load() == before {
				t.Error("nobody could write while the store was frozen")
			}
			t.Logf("writers waited %v; %d moves since", content.Held, moved.Load()-before)
			copied := mustOpen(t, Config{Path: to})
			if sum, n := sumOfAccounts(t, copied); sum != accounts*balance || n != accounts {
				t.Errorf("%d accounts hold %d, want %d and %d", n, sum, accounts, accounts*balance)
			}
		}
		stop()
	})
}

func TestNobodyCommitsDuringAFreeze(t *testing.T) {
	inFileAndMemory(t, func(t *testing.T, path string) {
		t.Helper()
		tier := openAccounts(t, path)
		handles := []*Tier{tier}
		if path != Memory { // as another process would
			handles = append(handles, mustOpen(t, Config{Path: path, Synchronous: Normal}))
		}
		var stops []func()
		for _, h := range handles {
			_, stop := keepMoving(t, h, 2)
			stops = append(stops, stop)
		}
		var first, last map[string]string
		f, err := tier.Freeze(t.Context(), func(context.Context) error {
			if path == Memory {
				return nil // there a load waits as well
			}
			first = contents(t, tier)
			for range 10 {
				time.Sleep(time.Millisecond)
				last = contents(t, tier)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, stop := range stops {
			stop()
		}
		to := filepath.Join(t.TempDir(), "copy.db")
		copyTo(t, f, to)
		_ = f.Close()
		copied := contents(t, mustOpen(t, Config{Path: to}))
		if path == Memory {
			return
		}
		for k, v := range first {
			if last[k] != v || copied[k] != v {
				t.Errorf("%s was %s, then %s, and is %s in the copy", k, v, last[k], copied[k])
			}
		}
	})
}

func contents(t *testing.T, tier *Tier) map[string]string {
	t.Helper()
	m := map[string]string{}
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "session.preferences"}) {
		if err != nil {
			t.Fatal(err)
		}
		m[r.Name] = fmt.Sprintf("%s at %d", r.Value, r.Version)
	}
	return m
}

func TestAFreezeThatFailsHoldsNobody(t *testing.T) {
	inFileAndMemory(t, func(t *testing.T, path string) {
		t.Helper()
		tier := openAccounts(t, path)
		bad := errors.New("the files can't be frozen")
		for range 2 * maxSnapshots {
			if _, err := tier.Freeze(t.Context(), func(context.Context) error { return bad }); !errors.Is(err, bad) {
				t.Fatalf("got %v, want what happened during it", err)
			}
		}
		if err := move(t.Context(), tier, 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := tier.Freeze(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of its context", err)
		}
		f, err := tier.Freeze(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tier.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Copy(t.Context(), &bytes.Buffer{}); !errors.Is(err, tiers.ErrClosed) {
			t.Errorf("a copy after the store was closed: %v, want %v", err, tiers.ErrClosed)
		}
		if _, err := tier.Freeze(t.Context(), nil); !errors.Is(err, tiers.ErrClosed) {
			t.Errorf("a freeze after the store was closed: %v, want %v", err, tiers.ErrClosed)
		}
	})
}

func TestWhatWasDeletedIsNotInACopy(t *testing.T) {
	t.Parallel()
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db"), Synchronous: Normal})
	secret := strings.Repeat("forget me ", 20_000)
	for i := range 30 { // more than one page of the list of free pages is not needed to see it
		if _, err := tier.Save(t.Context(), plainJSON(fmt.Sprint(i), strconv.Quote(secret)), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tier.Save(t.Context(), plainJSON("kept", `"kept"`), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if _, err := tier.Delete(t.Context(), key(fmt.Sprint(i)), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := tier.Freeze(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if err := errors.Join(f.Copy(t.Context(), &one), f.Copy(t.Context(), &two), f.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two copies of one instant differ")
	}
	// A page in use keeps what is left of a cell that was its own.
	if n := bytes.Count(one.Bytes(), []byte("forget me")); n > 30*pageSize/len("forget me ") {
		t.Errorf("%d traces of what was deleted", n)
	}
	if !bytes.Contains(one.Bytes(), []byte(`"kept"`)) {
		t.Error("what was kept is missing")
	}
}

func TestFreezing(t *testing.T) {
	t.Parallel()
	tiertest.RunFreezer(t, tiertest.Config{Open: openIn, Durable: true, Shared: true}, Copies(),
		func(dir string) string { return filepath.Join(dir, "sage.db") })
}
