package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func keysOf[T any](t testing.TB, c *manager.Collection[T], opts ...manager.ListOption) []string {
	t.Helper()
	keys := []string{}
	for e, err := range c.List(t.Context(), opts...) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

func TestUnderListsTheSubTreeAlone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[int](sagetest.Open(t), "session.preferences")
	for _, k := range []string{"acme", "acme-corp/x", "acme/a", "acme/b/c", "acme0", "b", "100%/x", "a_b/x", "aXb/x", "a*/x"} {
		must(t, c.Save(ctx, k, 1))
	}
	cases := []struct {
		why  string
		opts []manager.ListOption
		want []string
	}{
		{"the key and what is below", []manager.ListOption{manager.Under("acme")}, []string{"acme", "acme/a", "acme/b/c"}},
		{"in reverse", []manager.ListOption{manager.Under("acme"), manager.Reverse()}, []string{"acme/b/c", "acme/a", "acme"}},
		{"the limit counts over both", []manager.ListOption{manager.Under("acme"), manager.Limit(2)}, []string{"acme", "acme/a"}},
		{"a limit of one", []manager.ListOption{manager.Under("acme"), manager.Limit(1)}, []string{"acme"}},
		{"after its own key", []manager.ListOption{manager.Under("acme"), manager.After("acme")}, []string{"acme/a", "acme/b/c"}},
		{"after a key in between", []manager.ListOption{manager.Under("acme"), manager.After("acme-corp/x")}, []string{"acme/a", "acme/b/c"}},
		{"in reverse after one", []manager.ListOption{manager.Under("acme"), manager.Reverse(), manager.After("acme/b")}, []string{"acme/a", "acme"}},
		{"with a prefix", []manager.ListOption{manager.Under("acme"), manager.Prefix("acme/b")}, []string{"acme/b/c"}},
		{"several segments", []manager.ListOption{manager.Under("acme", "b")}, []string{"acme/b/c"}},
		{"a segment is escaped", []manager.ListOption{manager.Under("acme/b")}, []string{}},
		{"a prefix is of the text", []manager.ListOption{manager.Prefix("acme")}, []string{"acme", "acme-corp/x", "acme/a", "acme/b/c", "acme0"}},
		{"an underscore is itself", []manager.ListOption{manager.Prefix("a_")}, []string{"a_b/x"}},
		{"a per cent sign is itself", []manager.ListOption{manager.Prefix("100%")}, []string{"100%/x"}},
		{"a star is itself", []manager.ListOption{manager.Prefix("a*")}, []string{"a*/x"}},
	}
	for _, c2 := range cases {
		if got := keysOf(t, c, c2.opts...); !slices.Equal(got, c2.want) {
			t.Errorf("%s: %q, want %q", c2.why, got, c2.want)
		}
	}
}

func TestListAgreesWithASortedMap(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[int](sagetest.Open(t), "session.preferences")
	name := rapid.StringOfN(rapid.RuneFrom([]rune("ab/-%")), 1, 4, -1)
	rapid.Check(t, func(rt *rapid.T) {
		for _, e := range value[[]manager.Entry[int]](t)(c.All(ctx)) {
			value[bool](t)(c.Delete(ctx, e.Key))
		}
		keys := rapid.SliceOfDistinct(name, func(s string) string { return s }).Draw(rt, "keys")
		for _, k := range keys {
			must(t, c.Save(ctx, k, 1))
		}
		prefix := rapid.StringOfN(rapid.RuneFrom([]rune("ab/")), 0, 2, -1).Draw(rt, "prefix")
		under := rapid.SampledFrom([]string{"", "a", "b", "a-"}).Draw(rt, "under")
		after := rapid.OneOf(rapid.Just(""), name).Draw(rt, "after")
		reverse := rapid.Bool().Draw(rt, "reverse")
		limit := rapid.IntRange(0, 3).Draw(rt, "limit")

		want := []string{}
		slices.Sort(keys)
		if reverse {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			beyond := after == "" || !reverse && k > after || reverse && k < after
			below := under == "" || k == under || strings.HasPrefix(k, under+"/")
			if beyond && below && strings.HasPrefix(k, prefix) && (limit == 0 || len(want) < limit) {
				want = append(want, k)
			}
		}
		opts := []manager.ListOption{manager.Prefix(prefix), manager.After(after), manager.Limit(limit)}
		if under != "" {
			opts = append(opts, manager.Under(under))
		}
		if reverse {
			opts = append(opts, manager.Reverse())
		}
		if got := keysOf(t, c, opts...); !slices.Equal(got, want) {
			rt.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestSavingAndClosingInsideAListIsFine(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), value[*manager.Manager](t)(manager.OpenMemory(t.Context(), all()))
	c := manager.For[int](m, "session.preferences")
	for i := range 600 {
		must(t, c.Save(ctx, fmt.Sprintf("k%03d", i), i))
	}
	n := 0
	for e, err := range c.List(ctx, manager.Prefix("k")) {
		if n == 600 {
			break
		}
		if n < 300 {
			must(t, err)
			must(t, c.Save(ctx, "copy-"+e.Key, e.Value))
			value[bool](t)(c.Delete(ctx, e.Key))
		}
		if n++; n == 300 {
			closeNow(t, m)
		} else if n > 300 {
			wantError(t, err, tiers.ErrClosed, "after the close")
			if e.Key != "" {
				t.Errorf("the error that ends a list has no key, not %q", e.Key)
			}
			break
		}
	}
	if n != 301 {
		t.Errorf("the list ended after %d", n)
	}
}

// Whoever reads a list may take any time; Close does not wait for it, be it another
// goroutine or the one that closes.
func TestClosingWaitsForNoReaderOfAList(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"memory", "cache", "database", "file"} {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			m := value[*manager.Manager](t)(manager.Open(t.Context(), &config.Config{DataDir: t.TempDir()}, all()))
			c := manager.For[int](m, "app.list", manager.Policy(config.Category{Tier: home}))
			for i := range 3 {
				must(t, c.Save(t.Context(), fmt.Sprint(i), i))
			}
			reading, closed, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				for range c.List(t.Context()) { //nolint:errcheck // whatever comes first
					close(reading)
					<-closed
					return
				}
			}()
			<-reading
			go func() {
				n := 0
				for e, err := range c.List(t.Context()) {
					switch n++; {
					case n == 1 && err == nil:
						err = m.Close(t.Context())
						close(closed)
					case n == 2 && e.Key == "" && errors.Is(err, tiers.ErrClosed):
						err = nil
					case err == nil:
						err = fmt.Errorf("%q comes after the close", e.Key)
					}
					if err != nil {
						over <- err
						return
					}
				}
				over <- nil
			}()
			select {
			case err := <-over:
				must(t, err)
			case <-time.After(20 * time.Second):
				t.Fatal("Close waits")
			}
		})
	}
}

func TestOneBadRecordDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	mem := sagetest.Open(t)
	texts := manager.For[string](mem, "session.preferences")
	must(t, manager.For[int](mem, "session.preferences").Save(ctx, "k500", 1))
	for i := range 1000 {
		if i != 500 {
			must(t, texts.Save(ctx, fmt.Sprintf("k%03d", i), "v"))
		}
	}
	good, bad := 0, 0
	for e, err := range texts.List(ctx) {
		switch {
		case err == nil:
			good++
		case e.Key == "k500" && errors.Is(err, tiers.ErrType) && asError(t, err).Key == "k500":
			bad++
		default:
			t.Errorf("%q: %v", e.Key, err)
		}
	}
	if good != 999 || bad != 1 {
		t.Errorf("%d good and %d bad", good, bad)
	}
	found, err := texts.LoadMany(ctx, "k499", "k500", "k501")
	if len(found) != 2 || !errors.Is(err, tiers.ErrType) {
		t.Errorf("what loads is there beside the error: %v, %v", found, err)
	}
}

func TestAwkwardKeysAreDistinct(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	keys := []string{
		"a/b", "a_b", "a.b", "A", "a", ".", "..", "../x", "CON", "aux.json", "dot.", "space ", strings.Repeat("k", 300), "😀", "%2F",
		"\\", "a\nb", "-", "~", "@x", ".sage", "x.tmp",
	}
	for _, category := range []string{"session.preferences", "session.history", "config", "app.drafts"} {
		c := manager.For[string](openEmbedded(t), category)
		if category == "app.drafts" {
			c = manager.For[string](sagetest.Open(t), category)
		}
		for _, k := range keys {
			must(t, c.Save(ctx, k, k))
		}
		want := slices.Sorted(slices.Values(keys))
		if got := keysOf(t, c); !slices.Equal(got, want) {
			t.Errorf("%s lists %q, want %q", category, got, want)
		}
		for _, k := range keys {
			if got, err := c.Load(ctx, k); got != k || err != nil {
				t.Errorf("%s: %q holds %q, %v", category, k, got, err)
			}
		}
	}
}

func TestNegativeLimitIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := manager.For[int](sagetest.Open(t), "session.preferences").All(t.Context(), manager.Limit(-1)); err == nil {
		t.Error("it is accepted")
	}
}
