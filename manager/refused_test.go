package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// A call that can't be done says which, on what, why, and what to do.
func TestCallsThatCannotBeDoneSayWhatAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why   string
		cause error
	}{
		{"the disk is full", tiers.ErrFull},
		{"the directory is read-only", tiers.ErrReadOnly},
		{"the directory belongs to somebody else", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}},
		{"the tier is away", tiers.ErrUnavailable},
		{"the outcome is unknown", tiers.ErrCommitUnknown},
		{"the record is damaged", tiers.ErrCorrupt},
		{"the caller left", context.DeadlineExceeded},
		{"something unheard of", errors.New("the planets are wrong")},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			var cause error
			drivers := sagetest.Failing(all(), func(_ string, k tiers.Key) error {
				if k.Category == "session.preferences" {
					return cause
				}
				return nil
			})
			m := sagetest.OpenWith(t, config.InMemory(), drivers)
			prefs := manager.For[string](m, "session.preferences")
			e := value[manager.Entry[string]](t)(prefs.SaveEntry(ctx, "k", "old"))
			cause = c.cause
			only := func(_ any, err error) error { return err }
			for op, err := range map[string]error{
				"save":           prefs.Save(ctx, "k", "new"),
				"save, if same":  prefs.Save(ctx, "k", "new", manager.IfVersion(e.Version)),
				"save, untyped":  m.Save(ctx, "session.preferences", "k", "new"),
				"save, of many":  prefs.SaveMany(ctx, map[string]string{"k": "new"}),
				"save, of entry": only(prefs.SaveEntry(ctx, "k", "new")),
				"load":           only(prefs.Load(ctx, "k")),
				"load, of many":  only(prefs.LoadMany(ctx, "k")),
				"load, untyped":  m.Load(ctx, "session.preferences", "k", new(string)),
				"delete":         only(prefs.Delete(ctx, "k")),
				"delete, many":   only(prefs.DeleteMany(ctx, "k")),
				"exists":         only(prefs.Exists(ctx, "k")),
				"touch":          only(prefs.Touch(ctx, "k", manager.Forever())),
				"modify":         only(prefs.Modify(ctx, "k", func(s *string, _ bool) error { *s = "new"; return nil })),
			} {
				if !errors.Is(err, c.cause) {
					t.Errorf("%s: %v", op, err)
					continue
				}
				word, _, _ := strings.Cut(op, ",")
				if e := asError(t, err); e.Op != word && op != "modify" || e.Tier != "memory" || e.Category != "session.preferences" || e.Key != "k" || e.Hint == "" {
					t.Errorf("%s: the error is incomplete: %+v", op, e)
				}
				for _, part := range []string{"memory", "session.preferences", `"k"`} {
					if !contains(err, part) {
						t.Errorf("%s: %q does not say %s", op, err, part)
					}
				}
			}
			_, err := prefs.All(ctx)
			wantError(t, err, c.cause, "list")
			if e := asError(t, err); e.Op != "list" || e.Tier != "memory" || e.Category != "session.preferences" || e.Hint == "" {
				t.Errorf("list: the error is incomplete: %+v", e)
			}
			cause = nil
			if got := value[string](t)(prefs.Load(ctx, "k")); got != "old" {
				t.Errorf("a call that failed left %q", got)
			}
		})
	}
}

func TestFullMemorySaysSo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := sagetest.OpenWith(t, &config.Config{DataDir: t.TempDir(), Memory: config.Memory{Budget: "64KiB", Overflow: "none"}}, all())
	c := manager.For[string](m, "session.context")
	var err error
	saved := 0
	for ; err == nil && saved < 100; saved++ {
		err = c.Save(ctx, fmt.Sprintf("s/%d", saved), strings.Repeat("x", 8<<10))
	}
	wantError(t, err, tiers.ErrFull, "save")
	if e := asError(t, err); e.Op != "save" || e.Tier != "memory" || e.Category != "session.context" || e.Key == "" || e.Hint == "" {
		t.Errorf("the error is incomplete: %+v", e)
	}
	if got := keysOf(t, c); len(got) != saved-1 {
		t.Errorf("%d of %d acknowledged saves are there", len(got), saved-1)
	}
	value[bool](t)(c.Delete(ctx, "s/0"))
	must(t, c.Save(ctx, "s/again", strings.Repeat("x", 8<<10)))
}

// What the caller has to change is told by the error itself, not by a look at the
// tiers.
func TestRefusedValuesAreNotBlamedOnTheTier(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := config.InMemory()
	cfg.Categories = map[string]config.Category{"app.small": {MaxValue: "1KiB"}}
	m := sagetest.OpenWith(t, cfg, all())
	text, number, session := manager.For[string](m, "app.small"), manager.For[int](m, "app.small"), manager.For[string](m, "session.context")
	must(t, text.Save(ctx, "k", "text"))
	_, wrongType := number.Load(ctx, "k")
	must(t, session.Save(ctx, "s/k", "v"))
	must(t, m.EndSession(ctx, "s"))
	closed := value[*manager.Manager](t)(manager.OpenMemory(ctx, all()))
	closeNow(t, closed)
	for why, err := range map[string]error{
		"the wrong type":       wrongType,
		"too large a value":    text.Save(ctx, "k", strings.Repeat("x", 2<<10)),
		"a value that is none": manager.For[chan int](m, "app.small").Save(ctx, "k", make(chan int)),
		"an unknown codec":     m.Save(ctx, "app.small", "k", manager.Encoded{Codec: "pickle"}),
		"an ended session":     session.Save(ctx, "s/k", "v"),
		"a closed store":       closed.Save(ctx, "session.preferences", "k", "v"),
	} {
		if err == nil || contains(err, "doctor") {
			t.Errorf("%s: %v", why, err)
		}
	}
}
