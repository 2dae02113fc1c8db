package knowledge_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func wantIs(t testing.TB, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

func count(t testing.TB, m *manager.Manager, category string) int {
	t.Helper()
	n := 0
	for _, err := range m.List(t.Context(), category, manager.KeysOnly()) {
		must(t, err)
		n++
	}
	return n
}

func TestContentIsStoredOnceForAllSessions(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, clock := r.Open(t)
			ctx, k := t.Context(), knowledge.New(m)
			must(t, k.Check())
			text := strings.Repeat("some text ", 100)
			c := value[knowledge.Cache](t)(k.Put(ctx, "s-1", text, 42))
			if c.ContentHash != knowledge.Hash(text) || !strings.HasPrefix(c.ContentHash, "sha256:") || c.Tokens != 42 || !c.LoadedAt.Equal(start) || c.AccessCount != 1 {
				t.Errorf("put answers %+v", c)
			}
			clock.Advance(time.Second)
			if c = value[knowledge.Cache](t)(k.Put(ctx, "s-2", text, knowledge.Unknown)); c.Tokens != 42 || c.AccessCount != 2 || !c.LoadedAt.Equal(start) {
				t.Errorf("put again answers %+v", c)
			}
			if c = value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash)); c.AccessCount != 3 || c.Content != text || c.Tokens != 42 {
				t.Errorf("get answers %+v", c)
			}
			if n := count(t, m, "knowledge.bodies"); n != 3 {
				t.Errorf("there are %d records for a body and its two holders", n)
			}
			_, err := k.Add(ctx, "s-1", knowledge.Cache{ContentHash: knowledge.Hash("other"), Content: text})
			wantIs(t, err, tiers.ErrCorrupt, "add with a wrong hash")
			_, err = k.Add(ctx, "s-1", knowledge.Cache{ContentHash: "md5:1", Content: text})
			wantIs(t, err, tiers.ErrKey, "add with no hash")
			_, err = k.Get(ctx, knowledge.Hash("other"))
			wantIs(t, err, tiers.ErrNotFound, "get what nobody put")

			must(t, m.EndSession(ctx, "s-1"))
			value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash))
			_, err = k.Put(ctx, "s-1", text, 0)
			wantIs(t, err, tiers.ErrSessionEnded, "put into a session that has ended")
			must(t, m.EndSession(ctx, "s-2"))
			_, err = k.Get(ctx, c.ContentHash)
			wantIs(t, err, tiers.ErrNotFound, "get what nobody holds")
			if n := count(t, m, "knowledge.bodies"); n != 0 {
				t.Errorf("%d records are left", n)
			}
		})
	}
}

func TestContentGoesWithItsLastReference(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, k := t.Context(), knowledge.New(m)
			a := value[knowledge.Cache](t)(k.Put(ctx, "s/1", "a", 1))
			b := value[knowledge.Cache](t)(k.Put(ctx, "s/1", "b", 1))
			value[knowledge.Cache](t)(k.Put(ctx, "s-2", "b", 1))
			value[knowledge.Cache](t)(k.Put(ctx, "s-3", "c", 1))
			if held := value[[]string](t)(k.Held(ctx, "s/1")); len(held) != 2 {
				t.Errorf("the session holds %q", held)
			}
			if !value[bool](t)(k.Drop(ctx, "s/1", a.ContentHash)) || value[bool](t)(k.Drop(ctx, "s/1", a.ContentHash)) {
				t.Error("what was dropped was not held, or still is")
			}
			_, err := k.Get(ctx, a.ContentHash)
			wantIs(t, err, tiers.ErrNotFound, "get what was dropped")
			must(t, m.EndSession(ctx, "s/1"))
			must(t, m.EndSession(ctx, "s-3"))
			if n := value[int](t)(k.Collect(ctx)); n != 1 {
				t.Errorf("collected %d bodies, want that of the last session only", n)
			}
			value[knowledge.Cache](t)(k.Get(ctx, b.ContentHash))
			if n := count(t, m, "knowledge.bodies"); n != 2 {
				t.Errorf("%d records are left, want a body with one holder", n)
			}
		})
	}
}

func TestDamagedContentIsToldAndMendedByPuttingItAgain(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	k := knowledge.New(m)
	c := value[knowledge.Cache](t)(k.Put(ctx, "s", "text", 1))
	must(t, m.Save(ctx, "knowledge.bodies", c.ContentHash, map[string]any{"content": "texx", "tokens": 1, "loaded_at": start}))
	_, err := k.Get(ctx, c.ContentHash)
	wantIs(t, err, tiers.ErrCorrupt, "get")
	value[knowledge.Cache](t)(k.Put(ctx, "s", "text", 1))
	if c = value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash)); c.Content != "text" {
		t.Errorf("mended it is %q", c.Content)
	}
}

func TestTokensAreCountedOrUnknownButNotZero(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	k := knowledge.New(m)
	if c := value[knowledge.Cache](t)(k.Put(ctx, "s", "a", knowledge.Unknown)); c.Tokens != knowledge.Unknown {
		t.Errorf("nobody counted, and there are %d tokens", c.Tokens)
	}
	if c := value[knowledge.Cache](t)(k.Put(ctx, "s", "a", 7)); c.Tokens != 7 {
		t.Errorf("told later there are %d tokens", c.Tokens)
	}
	if c := value[knowledge.Cache](t)(k.Put(ctx, "s", "", 0)); c.Tokens != 0 {
		t.Errorf("empty content has %d tokens", c.Tokens)
	}
	_, err := k.Put(ctx, "s", "b", -2)
	wantIs(t, err, tiers.ErrType, "fewer tokens than none")
	counting := knowledge.New(m, knowledge.WithCounter(func(content string) (int, bool) { return len(content), content != "?" }))
	if c := value[knowledge.Cache](t)(counting.Put(ctx, "s", "four", knowledge.Unknown)); c.Tokens != 4 {
		t.Errorf("counted were %d tokens", c.Tokens)
	}
	if c := value[knowledge.Cache](t)(counting.Put(ctx, "s", "?", knowledge.Unknown)); c.Tokens != knowledge.Unknown {
		t.Errorf("the counter can't tell, and there are %d tokens", c.Tokens)
	}
}

func TestContentMayBeAnyBytes(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, k := t.Context(), knowledge.New(m)
			for _, text := range []string{"", "a\x00b", "\xff\xfe", "<&>\u2028", strings.Repeat("é", 1<<18)} {
				c := value[knowledge.Cache](t)(k.Put(ctx, "s", text, 1))
				if c = value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash)); c.Content != text {
					t.Errorf("%d bytes came back as %d other ones", len(text), len(c.Content))
				}
			}
		})
	}
}

func TestAccessesAreExactAtOnceAndWrittenSoon(t *testing.T) {
	t.Parallel()
	cfg := routeTo("").Config(t, t.TempDir())
	clock := sagetest.NewClock(start)
	m := open(t, cfg, manager.WithClock(clock))
	ctx, k := t.Context(), knowledge.New(m)
	c := value[knowledge.Cache](t)(k.Put(ctx, "s", "text", 1))
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 10 {
				value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash))
			}
		})
	}
	work.Wait()
	if c = value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash)); c.AccessCount != 82 {
		t.Errorf("after 82 accesses the count is %d", c.AccessCount)
	}
	written := func() int64 {
		var r struct {
			Count int64 `json:"count"`
		}
		if err := m.Load(ctx, "knowledge.access", c.ContentHash, &r); err != nil && !errors.Is(err, tiers.ErrNotFound) {
			t.Fatal(err)
		}
		return r.Count
	}
	for range 10_000 { // until the background work has had its turn
		if written() == 82 {
			break
		}
		clock.Advance(10 * time.Second)
		time.Sleep(time.Millisecond)
	}
	if written() != 82 {
		t.Errorf("written are %d", written())
	}
	err := m.Update(ctx, func(tx *manager.Tx) error {
		in := value[knowledge.Cache](t)(k.In(tx).Get(ctx, c.ContentHash))
		if in.AccessCount != 83 {
			t.Errorf("in a transaction the count is %d", in.AccessCount)
		}
		return tiers.ErrFull
	})
	wantIs(t, err, tiers.ErrFull, "the transaction")
	if c = value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash)); c.AccessCount != 83 {
		t.Errorf("an access of a transaction that was rolled back counts: %d", c.AccessCount)
	}
	must(t, m.Close(ctx))

	m = open(t, cfg, manager.WithClock(clock))
	k = knowledge.New(m)
	if c = value[knowledge.Cache](t)(k.Put(ctx, "r", "text", 1)); c.AccessCount != 84 {
		t.Errorf("in the next process the count is %d", c.AccessCount)
	}
	n := 0
	for a, err := range k.Accesses(ctx, start) {
		must(t, err)
		n++
		if a.Count != 84 || a.ContentHash != c.ContentHash || !a.First.Equal(start) || !a.Last.After(start) {
			t.Errorf("the access is %+v", a)
		}
	}
	for a, err := range k.Accesses(ctx, clock.Now().Add(time.Second)) {
		t.Errorf("after the last one there is %+v, %v", a, err)
	}
	if n != 1 {
		t.Errorf("there are %d accesses", n)
	}
	must(t, m.Close(ctx))
}

func TestManyPutAndEndAndNothingIsLostOrLeft(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	k := knowledge.New(m)
	var work sync.WaitGroup
	for n := range 6 {
		work.Go(func() {
			for i := range 15 {
				session := fmt.Sprintf("s-%d-%d", n, i)
				c := value[knowledge.Cache](t)(k.Put(ctx, session, fmt.Sprint("text ", i%3), 1))
				value[knowledge.Cache](t)(k.Get(ctx, c.ContentHash)) // the session holds it
				must(t, m.EndSession(ctx, session))
				value[int](t)(k.Collect(ctx))
			}
		})
	}
	work.Wait()
	value[int](t)(k.Collect(ctx))
	if n := count(t, m, "knowledge.bodies"); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestBodiesThatOutliveTheirReferencesAreRefusedAndKept(t *testing.T) {
	t.Parallel()
	cfg := routeTo("").Config(t, t.TempDir())
	cfg.Categories = map[string]config.Category{"knowledge.bodies": {Tier: "database"}}
	m := sagetest.OpenWith(t, cfg, drivers())
	k := knowledge.New(m)
	wantIs(t, k.Check(), tiers.ErrCategory, "the check")
	c := value[knowledge.Cache](t)(k.Put(t.Context(), "s", "text", 1))
	must(t, m.EndSession(t.Context(), "s"))
	value[int](t)(k.Collect(t.Context()))
	value[knowledge.Cache](t)(k.Get(t.Context(), c.ContentHash)) // another process may hold it
}
