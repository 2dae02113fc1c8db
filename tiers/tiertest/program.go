package tiertest

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// How many keys a random program works on: few, so that they meet often.
const programKeys = 6

// kind is what a step does.
type kind string

const (
	kindSave       kind = "save"
	kindLoad       kind = "load"
	kindExists     kind = "exists"
	kindDelete     kind = "delete"
	kindTouch      kind = "touch"
	kindList       kind = "list"
	kindSaveMany   kind = "save many"
	kindLoadMany   kind = "load many"
	kindDeleteMany kind = "delete many"
	kindApply      kind = "apply"
	kindAdvance    kind = "advance"
	kindSweep      kind = "sweep"
	kindReopen     kind = "reopen"
)

// demand is which condition an item carries; the version itself is known only
// when the program runs.
type demand int

const (
	demandNothing demand = iota
	demandAbsent
	demandStored // the version that is stored, or 1 when there is none
	demandOther  // a version that is not
)

// item is one key of a step.
type item struct {
	Key    int
	Value  string
	TTL    time.Duration
	Demand demand
	// For apply: how far from the stored version, and whether it is a delete.
	Ahead   int
	Deleted bool
}

func (i item) String() string {
	s := programKey(i.Key)
	if i.Value != "" {
		s += fmt.Sprintf("=%q", i.Value)
	}
	if i.TTL != 0 {
		s += fmt.Sprintf(" ttl=%v", i.TTL)
	}
	if i.Demand != demandNothing {
		s += " if-" + [...]string{"", "absent", "stored", "other"}[i.Demand]
	}
	return s
}

// step is one operation of a program.
type step struct {
	Kind    kind
	Items   []item
	Prefix  string
	After   int // number of a key, -1 for none
	Limit   int
	Reverse bool
	Lean    bool // keys only
	By      time.Duration
}

func (s step) String() string {
	switch s.Kind {
	case kindList:
		return fmt.Sprintf("list prefix=%q after=%d limit=%d reverse=%v keys-only=%v", s.Prefix, s.After, s.Limit, s.Reverse, s.Lean)
	case kindAdvance:
		return fmt.Sprintf("advance %v", s.By)
	case kindSweep, kindReopen:
		return string(s.Kind)
	case kindApply:
		var out strings.Builder
		out.WriteString("apply")
		for _, i := range s.Items {
			fmt.Fprintf(&out, " [%v ahead=%d deleted=%v]", i, i.Ahead, i.Deleted)
		}
		return out.String()
	default:
		return fmt.Sprintf("%s %v", s.Kind, s.Items)
	}
}

// programs generates short programs, which a failing one is shrunk to, and long
// ones, which find more.
func programs() *rapid.Generator[[]step] {
	return rapid.OneOf(rapid.SliceOfN(steps(), 1, 12), longPrograms(), longPrograms(), longPrograms(), longPrograms())
}

func longPrograms() *rapid.Generator[[]step] { return rapid.SliceOfN(steps(), 40, 100) }

func steps() *rapid.Generator[step] {
	// Listed as often as they should come up.
	kinds := rapid.SampledFrom([]kind{
		kindSave, kindSave, kindSave, kindSave, kindSave, kindSave, kindSave, kindSave, kindLoad, kindLoad, kindExists,
		kindDelete, kindDelete, kindTouch, kindTouch, kindTouch, kindTouch, kindList, kindList, kindList, kindSaveMany, kindLoadMany, kindDeleteMany, kindApply, kindApply,
		kindAdvance, kindAdvance, kindSweep, kindReopen,
	})
	return rapid.Custom(func(t *rapid.T) step {
		s := step{Kind: kinds.Draw(t, "kind"), After: -1}
		switch s.Kind {
		case kindList:
			s.Prefix = rapid.SampledFrom([]string{"", "", "a", "a/", "a%", "_", "zz"}).Draw(t, "prefix")
			s.After = rapid.IntRange(-1, programKeys-1).Draw(t, "after")
			s.Limit = rapid.IntRange(0, 4).Draw(t, "limit")
			s.Reverse = rapid.Bool().Draw(t, "reverse")
			s.Lean = rapid.Bool().Draw(t, "keys only")
		case kindAdvance:
			s.By = rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, 30 * time.Second, 2 * time.Minute, 48 * time.Hour}).Draw(t, "by")
		case kindSaveMany, kindLoadMany, kindDeleteMany:
			s.Items = rapid.SliceOfN(items(), 0, 5).Draw(t, "items")
		case kindApply:
			s.Items = rapid.SliceOfNDistinct(items(), 1, 3, func(i item) int { return i.Key }).Draw(t, "items")
		case kindSweep, kindReopen:
		default:
			s.Items = []item{items().Draw(t, "item")}
		}
		return s
	})
}

func items() *rapid.Generator[item] {
	return rapid.Custom(func(t *rapid.T) item {
		return item{
			Key:     rapid.IntRange(0, programKeys-1).Draw(t, "key"),
			Value:   rapid.StringMatching(`[a-z\x00]{0,6}`).Draw(t, "value"),
			TTL:     rapid.SampledFrom([]time.Duration{0, 0, time.Minute, time.Hour, -time.Second}).Draw(t, "ttl"),
			Demand:  rapid.SampledFrom([]demand{demandNothing, demandNothing, demandAbsent, demandStored, demandStored, demandOther}).Draw(t, "demand"),
			Ahead:   rapid.SampledFrom([]int{-1000, -1, 0, 1, 1000}).Draw(t, "ahead"),
			Deleted: rapid.IntRange(0, 3).Draw(t, "deleted") == 0,
		}
	})
}

// programKey is the name of a key by its number. They are in order, and each
// tells something about prefixes.
func programKey(i int) string {
	return [programKeys]string{"_x", "a", "a%b", "a/b", "a_b", "b"}[i]
}
