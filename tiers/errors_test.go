package tiers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

var someKey = tiers.Key{Namespace: "acme", Category: "session.preferences", Name: "user-42"}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		why  string
		err  error
		want string
	}{
		{
			"everything", &tiers.Error{
				Op: "save", Tier: "cache", Namespace: "acme", Category: "c", Key: "k", Tx: "t-1", Hint: "try again", Err: tiers.ErrFull,
			},
			`save c "k" in namespace acme (cache) in transaction t-1: full (try again)`,
		},
		{"a key is quoted", tiers.Fail("load", "file", tiers.Key{Category: "c", Name: "a\nb"}, tiers.ErrNotFound), `load c "a\nb" (file): not found`},
		{"no key", &tiers.Error{Op: "ping", Tier: "cache", Err: tiers.ErrUnavailable}, `ping (cache): unavailable`},
		{"only a hint", tiers.Hint(tiers.ErrReadOnly, "open it for writing"), `read-only (open it for writing)`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

func TestKeysBeyondTheLimitAreCutInErrors(t *testing.T) {
	k := tiers.Key{Category: "config", Name: strings.Repeat("k", 1<<20)}
	if got := tiers.Fail("save", "file", k, k.Check()).Error(); len(got) > 200 || !strings.Contains(got, `"kkk`) {
		t.Errorf("the error has %d bytes", len(got))
	}
	k.Name = k.Name[:tiers.MaxKey]
	if got := tiers.Fail("save", "file", k, tiers.ErrFull).Error(); !strings.Contains(got, k.Name) {
		t.Error("a key that can be stored is whole")
	}
}

func TestNotFoundIsNotExist(t *testing.T) {
	err := fmt.Errorf("outer: %w", tiers.Fail("load", "file", someKey, tiers.ErrNotFound))
	if !errors.Is(err, tiers.ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not both ErrNotFound and fs.ErrNotExist", err)
	}
	if errors.Is(fs.ErrNotExist, tiers.ErrNotFound) {
		t.Error("a missing file is taken for a missing record")
	}
}

func TestFailCompletesAndKeeps(t *testing.T) {
	if tiers.Fail("load", "file", someKey, nil) != nil || tiers.Hint(nil, "hint") != nil {
		t.Error("no error became one")
	}
	first := tiers.Fail("load", "", someKey, tiers.ErrCorrupt)
	second := tiers.Fail("save", "file", tiers.Key{Category: "other", Name: "other"}, first)
	var e *tiers.Error
	if !errors.As(second, &e) || e.Op != "load" || e.Tier != "file" || e.Key != someKey.Name || e.Category != someKey.Category || e.Namespace != "acme" {
		t.Errorf("what was said is not kept, or what was missing is not filled in: %+v", e)
	}
	if e.Err != tiers.ErrCorrupt { //nolint:errorlint // it must not be wrapped twice
		t.Errorf("the cause is %v", e.Err)
	}
	if errors.As(first, &e); e.Tier != "" {
		t.Errorf("completing changed the first error: %+v", e)
	}
	bare := tiers.Fail("save", "file", someKey, &tiers.Error{Err: tiers.ErrFull})
	if errors.As(bare, &e); e.Op != "save" || e.Key != someKey.Name {
		t.Errorf("an error without a key is not completed: %+v", e)
	}
	wrapped := tiers.Fail("save", "file", someKey, fmt.Errorf("outer: %w", first))
	if errors.As(wrapped, &e); e.Op != "save" || !errors.Is(wrapped, tiers.ErrCorrupt) {
		t.Errorf("an error that was wrapped meanwhile is not wrapped: %+v", e)
	}
}

func TestHintKeepsTheFirst(t *testing.T) {
	err := tiers.Hint(tiers.Hint(tiers.Fail("save", "file", someKey, tiers.ErrFull), "make room"), "never mind")
	var e *tiers.Error
	if !errors.As(err, &e) || e.Hint != "make room" || e.Key != someKey.Name || !errors.Is(err, tiers.ErrFull) {
		t.Errorf("the hint is not on the error: %+v", e)
	}
}

func TestKeysAreNotLogged(t *testing.T) {
	for _, err := range []error{
		tiers.Fail("load", "file", someKey, tiers.ErrNotFound),
		tiers.Fail("load", "file", someKey, fmt.Errorf("open /data/%s.json: %w", someKey.Name, fs.ErrPermission)),
		tiers.Fail("load", "file", tiers.Key{Category: someKey.Category}, errors.Join(errors.New("another"),
			fmt.Errorf("in between: %w", tiers.Fail("load", "file", someKey, fs.ErrPermission)))),
	} {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Error("failed", "err", err)
		if strings.Contains(out.String(), someKey.Name) {
			t.Errorf("the log shows the key: %s", &out)
		}
		kind := fs.ErrPermission
		if errors.Is(err, tiers.ErrNotFound) {
			kind = tiers.ErrNotFound
		}
		for _, want := range []string{"load", "file", someKey.Category, kind.Error()} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log does not show %q: %s", want, &out)
			}
		}
	}
}
