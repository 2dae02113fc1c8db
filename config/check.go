package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/tiers"
)

// check reports every fault of the configuration.
func (e *Effective) check(f *faults) {
	walk(e.raw, func(l leaf) {
		if problem := checkLeaf(l, e.raw.origin); problem != "" {
			f.add(l.at, e.raw.conceal(l.at, l.value.String(), problem))
		}
	})
	e.checkDatabase(f)
	e.checkCache(f)
	if e.raw.DefaultStore != "" {
		if _, problem := e.tierOf(e.raw.DefaultStore); problem != "" {
			f.add([]string{"default_store"}, e.raw.conceal([]string{"default_store"}, e.raw.DefaultStore, problem))
		}
	}
	e.checkTiers(f)
	for _, name := range sortedKeys(e.raw.Categories) {
		e.checkName(f, name)
		e.checkCategory(f, []string{"categories", name}, e.raw.Categories[name])
	}
	checkBackup(f, e.raw)
	checkEncryption(f, e.raw)
}

// checkLeaf answers what is wrong with one value by itself; "" is nothing.
func checkLeaf(l leaf, o *origin) (problem string) {
	if l.value.IsZero() {
		if p, written := o.find(l.at...); written && p.text == "0" && l.def != "0" {
			return "0 is not possible: write 1 or more, or leave it out"
		}
		return ""
	}
	text := l.value.String()
	switch v := l.value.Interface().(type) {
	case TTL:
		return orWords(l, text, func() (problem string) { _, problem = parseSpan(text); return problem })
	case Duration:
		_, problem = parseSpan(string(v))
	case Size:
		return orWords(l, text, func() (problem string) { _, problem = parseSize(text); return problem })
	case Retention:
		_, problem = parseRetention(v.String())
	case int:
		if v < 0 {
			problem = fmt.Sprintf("%d is negative", v)
		}
	case string:
		if l.file {
			return checkPath(text)
		}
		if len(l.words) > 0 && !slices.Contains(l.words, text) {
			problem = fmt.Sprintf("%q is not known%s", text, didYouMean(text, l.words))
		}
		if l.path == "checkpoints.strategy" {
			_, _, problem = parseStrategy(text)
		}
	}
	return problem
}

// orWords takes a word that the key allows, else asks the grammar.
func orWords(l leaf, text string, grammar func() string) (problem string) {
	if slices.Contains(l.words, text) {
		return ""
	}
	problem = grammar()
	if problem == "" {
		return ""
	}
	if best := nearest.Name(text, l.words); best != "" && len(text) > 3 {
		return fmt.Sprintf("%q is not known; did you mean %q?", text, best)
	}
	return problem + orWord(l.words)
}

func orWord(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return ", " + strings.Join(words, ", ")
}

// conceal keeps a value that was expanded from a variable or a file out of the
// message about it: it may be a secret in the wrong place.
func (c *Config) conceal(at []string, text, problem string) string {
	p, _ := c.origin.find(at...)
	if p.expanded == "" || text == "" {
		return problem
	}
	problem = strings.ReplaceAll(problem, fmt.Sprintf("%q", text), "the value of "+p.expanded)
	if strings.Contains(problem, text) {
		return "the value of " + p.expanded + " is not possible here"
	}
	return problem
}

// where names the place of a key for a message about another one.
func (c *Config) where(at ...string) string {
	if line, _ := c.origin.near(at); line > 0 {
		return strings.Join(at, ".") + " at " + position(c.origin.file, line)
	}
	return strings.Join(at, ".")
}

// engineTier answers the tier that an engine stands for.
func engineTier(name string) (tier string, ok bool) {
	switch name {
	case "sqlite", "postgres":
		return "database", true
	case "redis":
		return "cache", true
	}
	return "", false
}

// tierOf answers the tier that a store's name stands for, or what is wrong
// with the name.
func (e *Effective) tierOf(name string) (tier, problem string) {
	if name == "" || slices.Contains(e.tierNames(), name) {
		return name, ""
	}
	tier, ok := engineTier(name)
	if !ok {
		return "", fmt.Sprintf("there is no tier %q%s", name, didYouMean(name, append(e.tierNames(), "sqlite", "postgres", "redis")))
	}
	if e.cfg.InMemory || e.drivers[tier] == name {
		return tier, ""
	}
	switch name {
	case "redis":
		if e.raw.Redis == nil {
			return tier, "redis has no block: write redis: {url: ...}, or cache for the tier"
		}
		return tier, fmt.Sprintf("redis contradicts %s, which is %s", e.raw.where("cache", "driver"), e.raw.Cache.Driver)
	case "postgres":
		if e.raw.Postgres == nil {
			return tier, "postgres has no block: write postgres: {url: ...}, or database for the tier"
		}
	}
	if e.raw.Database.Driver != "" {
		return tier, fmt.Sprintf("%s contradicts %s, which is %s", name, e.raw.where("database", "driver"), e.raw.Database.Driver)
	}
	return tier, fmt.Sprintf("%s contradicts the block %s: remove one, or set database.driver", name, e.raw.where(e.drivers[tier]))
}

// Store answers the tier that a store's name stands for: a tier, or sqlite,
// postgres or redis for theirs; "" is default_store, else database.
func (e *Effective) Store(name string) (tier string, err error) {
	if name == "" {
		name = e.DefaultStore
	}
	if name == "" {
		name = "database"
	}
	tier, problem := e.tierOf(name)
	if problem != "" {
		return "", &Error{Problem: fmt.Sprintf("%s; the stores are %s", problem, orList(e.tierNames())), Path: "store", Err: tiers.ErrCategory}
	}
	return tier, nil
}
