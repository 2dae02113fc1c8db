package tiertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// icy is a reference that can be frozen, in one of several wrong ways.
type icy struct {
	*reference
	flaw string
}

func (t *icy) Freeze(ctx context.Context, during func(context.Context) error) (tiers.Frozen, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	s := &ice{t: t, ctx: ctx}
	s.all = t.sorted()
	if t.flaw == "lets others go on" {
		leave()
		leave = func() {}
	}
	defer leave()
	if during != nil {
		if err := during(ctx); err != nil && t.flaw != "forgets the error" {
			return nil, err
		}
	}
	return s, nil
}

func (t *icy) sorted() (all []tiers.Record) {
	for _, r := range t.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b tiers.Record) int {
		return strings.Compare(a.Namespace+"\x00"+a.Category+"\x00"+a.Name, b.Namespace+"\x00"+b.Category+"\x00"+b.Name)
	})
	return all
}

type ice struct {
	t      *icy
	ctx    context.Context
	all    []tiers.Record
	closed bool
}

func (s *ice) Copy(_ context.Context, w io.Writer) error {
	if (s.closed || s.ctx.Err() != nil) && s.t.flaw != "never ends" {
		return tiers.ErrClosed
	}
	all := s.all
	if s.t.flaw == "copies what is there" {
		all = s.t.sorted()
	}
	if s.t.flaw == "leaves one out" && len(all) > 0 {
		all = all[1:]
	}
	return json.NewEncoder(w).Encode(all)
}

func (s *ice) Content(context.Context, ...string) (tiers.Content, error) {
	return contentOf(s.all), nil
}

func (s *ice) Close() error { s.closed = true; return nil }

const formatIce = "ice"

func contentOf(all []tiers.Record) tiers.Content {
	c := tiers.Content{Format: formatIce, Size: -1}
	for _, r := range all {
		if n := len(c.Records); n == 0 || c.Records[n-1].Space != r.Space() {
			c.Records = append(c.Records, tiers.SpaceCount{Space: r.Space()})
		}
		c.Records[len(c.Records)-1].Records++
	}
	return c
}

// cubes reads copies. A store in memory can neither be seized nor replaced.
type cubes struct{ tiers.Copies }

func (cubes) Format() string { return formatIce }

func (cubes) OpenCopy(_ context.Context, path string) (tiers.Copy, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &cube{}
	if err := json.Unmarshal(b, &c.all); err != nil {
		return nil, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	return c, nil
}

type cube struct{ all []tiers.Record }

func (c *cube) Check(context.Context) error { return nil }

func (c *cube) Content(context.Context, ...string) (tiers.Content, error) {
	return contentOf(c.all), nil
}

func (c *cube) Records(_ context.Context, s tiers.Space) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		for _, r := range c.all {
			if r.Space() == s && !yield(r, nil) {
				return
			}
		}
	}
}

func (c *cube) Close() error { return nil }

func TestFlawsOfFreezingAreNoticed(t *testing.T) {
	for flaw, rule := range map[string]string{
		"":                     "",
		"copies what is there": "freezing/a copy is the instant of its freeze",
		"leaves one out":       "freezing/several may be frozen at once",
		"lets others go on":    "freezing/nobody commits while it is being frozen",
		"forgets the error":    "freezing/an error of during freezes nothing",
		"never ends":           "freezing/it ends with its context and with close",
	} {
		t.Run(flaw, func(t *testing.T) {
			var all stores
			c := Config{Open: func(_ context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
				return &icy{reference: &reference{store: all.open(dir), clock: clock}, flaw: flaw}, nil
			}}
			var l limits
			if flaw == "lets others go on" {
				l.moment = time.Minute // which is over as soon as the others are
			}
			err := check(c, t.TempDir(), freezerGroups(cubes{}, func(dir string) string { return dir }), l, func(name string) bool {
				inMemory := !strings.Contains(name, "seized") && !strings.Contains(name, "adopted")
				return inMemory && (rule == "" || name == rule)
			})
			if (err != nil) != (rule != "") {
				t.Errorf("got %v", err)
			}
		})
	}
}
