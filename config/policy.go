package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/tiers"
)

// Policy is everything that holds for a category.
type Policy struct {
	Category     string
	Rule         Rule
	Tier         string        // the home: memory, cache, database, file or one of the app's own
	TTL          time.Duration // of a save that names none; 0 is never
	Session      bool          // entries end with the session that their key's first segment names; TTL is 0
	Codec        string
	Near         []string      // tiers in front of the home, fastest first
	NearTTL      time.Duration // how long an entry of them serves without the home being asked
	NearSize     int64         // bytes that each of them may hold for the category
	MaxValue     int64         // bytes, encoded
	CompressOver int64         // bytes; 0 is never
	Encrypt      bool

	// Source says where each value comes from, by its key (tier, ttl, codec,
	// near, near_ttl, near_size, max_value, compress_over, encrypt): "config.yaml:12",
	// "built-in", "library", "default", "Go", or a rule's name and place.
	Source map[string]string
}

// Rule says which rule gave a category its home.
type Rule string

// The rules, the first that has a name wins.
const (
	RuleOwn          Rule = "own"           // listed in the configuration
	RuleBuiltIn      Rule = "built-in"      // known to every store
	RuleLibrary      Rule = "library"       // brought by the package that uses it
	RuleParent       Rule = "parent"        // its parent's: session for session.notes
	RuleDefaultStore Rule = "default_store" // none; "unlisted" in statistics
)

// storePrefix begins the reserved categories of stores used by name.
const storePrefix = "store."

// Policy answers what holds for a category. lib is the policy that a library
// brings for its own category, or nil; it counts when the configuration and the
// built-in rules have none. A name without a rule is a *tiers.Error that wraps
// [tiers.ErrCategory] and hints at the nearest one; with default_store only one
// that looks like a misspelt known name is.
func (e *Effective) Policy(category string, lib *Category) (Policy, error) {
	if err := tiers.CheckCategory(category); err != nil {
		return Policy{}, &tiers.Error{Op: "use", Category: category, Err: err}
	}
	if lib != nil {
		f := faults{}
		e.checkCategory(&f, []string{category}, *lib)
		if err := f.err(); err != nil {
			return Policy{}, &tiers.Error{Op: "use", Category: category, Err: fmt.Errorf("%w: the library's policy: %w", tiers.ErrCategory, err)}
		}
	}
	d, ok := e.rule(category, lib)
	if !ok {
		return Policy{}, e.unknown(category)
	}
	return e.policy(category, d), nil
}

// Has tells whether [Effective.Policy] answers a policy for a category that no library
// brings, and does not look for what may have been meant.
func (e *Effective) Has(category string) bool {
	_, ok := e.rule(category, nil)
	return ok && tiers.CheckCategory(category) == nil
}

// Policies answers the policies of all names that the configuration and the
// built-in rules know, by name.
func (e *Effective) Policies() []Policy {
	var ps []Policy
	for _, name := range e.known() {
		if d, ok := e.rule(name, nil); ok {
			ps = append(ps, e.policy(name, d))
		}
	}
	return ps
}

// known answers the names with a rule of their own, in order.
func (e *Effective) known() []string {
	names := slices.Collect(maps.Keys(e.cfg.Categories))
	for _, b := range builtins() {
		names = append(names, b.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// draft is a policy while its fields are gathered from rule after rule.
type draft struct {
	Category
	rule   Rule
	source map[string]string
}

// fill takes what is still missing from the next rule.
func (d *draft) fill(c Category, source func(field string) string) {
	take(d, "tier", &d.Tier, c.Tier, source)
	take(d, "ttl", &d.TTL, c.TTL, source)
	take(d, "codec", &d.Codec, c.Codec, source)
	take(d, "near_ttl", &d.NearTTL, c.NearTTL, source)
	take(d, "near_size", &d.NearSize, c.NearSize, source)
	take(d, "max_value", &d.MaxValue, c.MaxValue, source)
	take(d, "compress_over", &d.CompressOver, c.CompressOver, source)
	take(d, "encrypt", &d.Encrypt, c.Encrypt, source)
	if d.Near == nil && c.Near != nil {
		d.Near, d.source["near"] = c.Near, source("near")
	}
}

func take[T comparable](d *draft, field string, into *T, value T, source func(string) string) {
	var zero T
	if *into == zero && value != zero {
		*into, d.source[field] = value, source(field)
	}
}

// rule gathers the rules for a name; ok is false when it has none.
func (e *Effective) rule(name string, lib *Category) (d draft, ok bool) {
	d.source = make(map[string]string)
	called := func(what string) func(string) string { return func(string) string { return what } }
	set := func(r Rule) { d.rule = cmp.Or(d.rule, r) }

	if c, has := e.cfg.Categories[name]; has {
		d.fill(c, func(field string) string { return e.sourceOf("categories", name, field) })
		set(RuleOwn)
	}
	if tier, is := strings.CutPrefix(name, storePrefix); is {
		if !slices.Contains(e.tierNames(), tier) {
			return d, false
		}
		d.fill(Category{Tier: tier}, called("built-in"))
		set(RuleBuiltIn)
		return d, true
	}
	if c, has := findBuiltin(name); has {
		d.fill(c, called("built-in"))
		set(RuleBuiltIn)
	}
	if lib != nil {
		d.fill(*lib, called("library"))
		set(RuleLibrary)
	}
	if d.Tier != "" {
		return d, true
	}
	for parent := parentOf(name); parent != ""; parent = parentOf(parent) {
		_, own := e.cfg.Categories[parent]
		if _, built := findBuiltin(parent); !own && !built {
			continue
		}
		if p, has := e.rule(parent, nil); has {
			d.fill(p.Category, func(field string) string { return "parent " + parent + " (" + p.source[field] + ")" })
			set(RuleParent)
			return d, true
		}
		break
	}
	if e.cfg.DefaultStore == "" || d.rule == "" && e.looksMisspelt(name) {
		return d, false
	}
	d.fill(Category{Tier: e.cfg.DefaultStore}, called(e.via("default_store")))
	set(RuleDefaultStore)
	return d, true
}

func parentOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '.'), 0)]
}

// looksMisspelt tells whether a name without a rule is so close to a known one
// that routing it by default_store would hide a typing error.
func (e *Effective) looksMisspelt(name string) bool {
	return slices.ContainsFunc(e.known(), func(known string) bool { return nearest.Distance(name, known, 3) < 3 })
}

func (e *Effective) unknown(name string) error {
	names := e.known()
	for _, tier := range e.tierNames() {
		names = append(names, storePrefix+tier)
	}
	hint := "list it under categories, or set default_store"
	if strings.HasPrefix(name, storePrefix) {
		hint = "names below " + storePrefix + " are reserved for the tiers"
	} else if e.cfg.DefaultStore != "" {
		hint = "list it under categories if it is not a typing error"
	}
	if best := nearest.Name(name, names); best != "" {
		hint = fmt.Sprintf("did you mean %q? else %s", best, hint)
	}
	return &tiers.Error{Op: "use", Category: name, Hint: hint, Err: tiers.ErrCategory}
}

// via names another setting as the source of a value.
func (e *Effective) via(path ...string) string {
	if e.sourceOf(path...) == "default" {
		return "default"
	}
	return strings.Join(path, ".") + " (" + e.sourceOf(path...) + ")"
}

// policy turns gathered rules, which are known to be right, into values.
func (e *Effective) policy(name string, d draft) Policy {
	p := Policy{Category: name, Rule: d.rule, Codec: d.Codec, Near: slices.Clone(d.Near), Source: d.source}
	p.Tier, _ = e.tierOf(d.Tier)
	or := func(field, value, source string, into *string) {
		if *into == "" {
			*into, p.Source[field] = value, source
		}
	}
	ttl, near, limit, over := string(d.TTL), string(d.NearTTL), string(d.MaxValue), string(d.CompressOver)
	size := string(d.NearSize)
	if p.Tier == "cache" && e.cfg.Redis != nil {
		or("ttl", string(e.cfg.Redis.TTLDefault), e.via("redis", "ttl_default"), &ttl)
	}
	if p.Tier == "file" {
		or("codec", e.cfg.File.Format, e.via("file", "format"), &p.Codec)
	}
	or("ttl", string(Never), "default", &ttl)
	or("codec", "json", "default", &p.Codec)
	or("near_ttl", e.defaults["categories.*.near_ttl"].def, "default", &near)
	or("near_size", e.defaults["categories.*.near_size"].def, "default", &size)
	or("max_value", e.defaults["categories.*.max_value"].def, "default", &limit)
	or("compress_over", string(e.cfg.CompressOver), e.via("compress_over"), &over)

	p.TTL, _ = TTL(ttl).Duration()
	p.Session = TTL(ttl) == UntilSessionEnds
	p.NearTTL, _ = TTL(near).Duration()
	p.NearSize, _ = Size(size).Bytes()
	p.MaxValue, _ = Size(limit).Bytes()
	p.CompressOver, _ = Size(over).Bytes()
	p.Encrypt = d.Encrypt != nil && *d.Encrypt
	if e.InMemory {
		p.Tier, p.Near = "memory", nil
	}
	if p.Tier == "memory" {
		p.Near = nil // nothing is nearer
	}
	for _, field := range []string{"near", "encrypt"} {
		p.Source[field] = cmp.Or(p.Source[field], "default")
	}
	return p
}
