package config

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/tiers"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (e *Effective) checkDatabase(f *faults) {
	c := e.raw
	_, written := c.origin.find("sqlite")
	switch {
	case c.Database.Driver == "postgres" && c.Postgres == nil:
		f.add([]string{"database", "driver"}, "postgres has no block: write postgres: {url: ...}")
	case c.Database.Driver == "" && c.Postgres != nil && (written || c.SQLite != SQLite{}):
		f.add([]string{"postgres"}, fmt.Sprintf("contradicts the block %s: say which one counts with database.driver: sqlite or postgres", c.where("sqlite")))
	}
	if c.Postgres == nil {
		return
	}
	if schema := c.Postgres.Schema; schema != "" {
		if problem := engine.CheckSchemaName(schema); problem != "" {
			at := []string{"postgres", "schema"}
			f.add(at, c.conceal(at, schema, fmt.Sprintf("%q is not possible: %s", schema, problem)))
		}
	}
	u := checkURL(f, []string{"postgres", "url"}, c.Postgres.URL, "postgres", "postgresql")
	if u == nil {
		return
	}
	if _, has := u.User.Password(); has && c.Postgres.Password != "" {
		f.add([]string{"postgres", "password"}, "there is one in "+c.where("postgres", "url")+" too: remove one")
	}
	if u.Query().Has("sslmode") && c.Postgres.SSLMode != "" {
		f.add([]string{"postgres", "sslmode"}, "there is one in "+c.where("postgres", "url")+" too: remove one")
	}
}

func (e *Effective) checkCache(f *faults) {
	c := e.raw
	if c.Cache.Driver == "redis" && c.Redis == nil {
		f.add([]string{"cache", "driver"}, "redis has no block: write redis: {url: ...}")
	}
	if c.Redis == nil {
		return
	}
	u := checkURL(f, []string{"redis", "url"}, c.Redis.URL, "redis", "rediss", "unix")
	if u == nil {
		return
	}
	if _, has := u.User.Password(); has && c.Redis.Password != "" {
		f.add([]string{"redis", "password"}, "there is one in "+c.where("redis", "url")+" too: remove one")
	}
	if u.User.Username() != "" && c.Redis.Username != "" {
		f.add([]string{"redis", "username"}, "there is one in "+c.where("redis", "url")+" too: remove one")
	}
}

// checkURL answers the URL, or nil after reporting what is wrong with it; the
// report never holds any part of it.
func checkURL(f *faults, at []string, text Secret, schemes ...string) *url.URL {
	forms := strings.Join(schemes, ":// or ") + "://"
	if text == "" {
		f.add(at, "is missing: write a URL that begins with "+forms)
		return nil
	}
	u, err := url.Parse(string(text))
	switch {
	case err != nil:
		f.add(at, "is no URL (not shown): write one that begins with "+forms+", and the password apart, under password")
		return nil
	case !slices.Contains(schemes, u.Scheme):
		f.add(at, "has the wrong scheme: write a URL that begins with "+forms)
		return nil
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			f.add(at, "has a port that is none: write one from 1 to 65535")
			return nil
		}
	}
	return u
}

func (e *Effective) checkTiers(f *faults) {
	for _, name := range sortedKeys(e.raw.Tiers) {
		at, t := []string{"tiers", name}, e.raw.Tiers[name]
		_, engine := engineTier(name)
		_, ours := e.drivers[name]
		switch {
		case ours || engine:
			f.add(at, fmt.Sprintf("%q is built in: its settings stand under %s, or choose another name", name, name))
		case name == "" || tiers.CheckNamespace(name) != nil:
			f.add(at, "the name of a tier is 1 to 64 of a-z, 0-9, \"_\" and \"-\"")
		}
		if t.Driver == "" {
			f.add(append(at, "driver"), "is missing: name the driver of this tier")
			continue
		}
		if e.options.drivers != nil {
			e.checkOwnDriver(f, name, t)
		}
	}
	e.checkLinked(f)
}

// checkLinked reports drivers that the configuration asks for and that the
// program does not have. What only a default asks for is told when it is used:
// an app may do without some tiers.
func (e *Effective) checkLinked(f *faults) {
	if e.options.drivers == nil {
		return
	}
	asked := make(map[string][]string) // where, by tier
	ask := func(store string, at ...string) {
		if tier, problem := e.tierOf(store); store != "" && problem == "" && asked[tier] == nil {
			asked[tier] = at
		}
	}
	if e.cfg.InMemory {
		ask("memory", "in_memory")
	} else {
		for _, engine := range []string{"redis", "postgres"} {
			if tier, _ := engineTier(engine); e.drivers[tier] == engine {
				ask(tier, engine)
			}
		}
		ask(e.raw.DefaultStore, "default_store")
		for _, name := range sortedKeys(e.raw.Categories) {
			ask(e.raw.Categories[name].Tier, "categories", name, "tier")
		}
	}
	for _, tier := range sortedKeys(asked) {
		driver, ours := e.drivers[tier]
		if _, ok := e.options.drivers.Find(tier, driver); ours && !ok {
			f.wrap(asked[tier], fmt.Sprintf("needs the driver %s of tier %s, which this program does not have: append it to the drivers, or pass all.Tiers()", driver, tier), tiers.ErrUnsupported)
		}
	}
}

func (e *Effective) checkName(f *faults, name string) {
	at := []string{"categories", name}
	if err := tiers.CheckCategory(name); err != nil {
		f.wrap(at, err.Error(), tiers.ErrCategory)
		return
	}
	tier, reserved := strings.CutPrefix(name, storePrefix)
	own := e.raw.Categories[name].Tier
	switch {
	case name == "store" || reserved && !slices.Contains(e.tierNames(), tier):
		f.wrap(at, "names below store are reserved"+didYouMean(name, prefixed(storePrefix, e.tierNames())), tiers.ErrCategory)
	case reserved && own != "" && own != tier:
		f.wrap(append(at, "tier"), fmt.Sprintf("%s lives in %s: only its other settings can be changed", name, tier), tiers.ErrCategory)
	}
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// checkCategory reports what is wrong with a rule beyond its single values when
// it comes from the configuration, and everything when a library brings it.
func (e *Effective) checkCategory(f *faults, at []string, c Category) {
	if at[0] != "categories" {
		for _, l := range categoryLeaves(at, &c) {
			if problem := checkLeaf(l, nil); problem != "" {
				f.add(l.at, problem)
			}
		}
	}
	report := func(field, value, problem string) {
		path := append(slices.Clip(at), field)
		f.wrap(path, e.raw.conceal(path, value, problem), tiers.ErrCategory)
	}
	home, problem := e.tierOf(c.Tier)
	if problem != "" {
		report("tier", c.Tier, problem)
	}
	if c.Codec != "" && !slices.Contains(e.codecs, c.Codec) && !e.foreignCodec(c.Codec) {
		problem := fmt.Sprintf("there is no codec %q%s", c.Codec, didYouMean(c.Codec, e.codecs))
		if nearest.Name(c.Codec, e.codecs) == "" {
			problem += "; a program names its own with config.Codecs and manager.WithCodec"
		}
		report("codec", c.Codec, problem)
	}
	if home == "" && len(c.Near) > 0 {
		if d, ok := e.rule(at[len(at)-1], nil); ok {
			home, _ = e.tierOf(d.Tier)
		}
	}
	if n, ok := c.NearSize.Bytes(); ok && n > 0 && n < leastNear {
		report("near_size", string(c.NearSize), fmt.Sprintf("%s is too little: write %s or more", c.NearSize, formatSize(leastNear)))
	}
	for i, near := range c.Near {
		tier, problem := e.tierOf(near)
		switch {
		case problem != "":
			report("near", near, problem)
		case tier != "memory":
			report("near", near, fmt.Sprintf("%s can't stand in front of another tier: only memory can", near))
		case home == tier:
			report("near", near, "is the home itself")
		case slices.Contains(c.Near[:i], near):
			report("near", near, fmt.Sprintf("names %s twice", near))
		}
	}
}

// leastNear is the smallest near layer that can hold a few entries.
const leastNear = 64 << 10

func categoryLeaves(at []string, c *Category) (ls []leaf) {
	shadow := Config{Categories: map[string]Category{"": *c}}
	walk(&shadow, func(l leaf) {
		l.at = append(slices.Clip(at), l.at[len(l.at)-1])
		ls = append(ls, l)
	})
	return ls
}

func checkBackup(f *faults, c *Config) {
	b := c.Backup
	at := func(field string) []string { return []string{"backup", field} }
	if b.At != "" {
		if _, err := time.Parse("15:04", b.At); err != nil {
			f.add(at("at"), c.conceal(at("at"), b.At, fmt.Sprintf("%q is no time of day: write 03:30", b.At)))
		}
		if b.Interval == "hourly" {
			f.add(at("at"), "has no meaning with "+c.where("backup", "interval")+", which is hourly")
		}
	}
	if _, err := time.LoadLocation(b.Zone); err != nil {
		f.add(at("zone"), c.conceal(at("zone"), b.Zone, fmt.Sprintf("%q is not in the time zone database: write a name such as Europe/Paris", b.Zone)))
	}
	if b.Cron != "" {
		if problem := checkCron(b.Cron); problem != "" {
			f.add(at("cron"), c.conceal(at("cron"), b.Cron, problem))
		}
		for _, other := range []struct{ field, value string }{{"interval", b.Interval}, {"at", b.At}} {
			if other.value != "" {
				f.add(at("cron"), "contradicts "+c.where("backup", other.field)+": remove one")
			}
		}
	}
	if _, written := c.origin.find("backup", "retention"); b.Keep.Last > 0 && (written || c.origin == nil && b.Retention != 0) {
		f.add([]string{"backup", "keep", "last"}, "contradicts "+c.where("backup", "retention")+": remove one")
	}
	if n := len(b.SigningKey); n > 0 && n < 16 {
		f.add(at("signing_key"), fmt.Sprintf("has %d bytes (not shown), and 16 are needed: make one with openssl rand -base64 32", n))
	}
	for i, k := range b.SigningKeysOld {
		if n := len(k); n < 16 {
			f.add(at("signing_keys_old"), fmt.Sprintf("number %d has %d bytes (not shown), and 16 are needed", i+1, n))
		}
	}
	if len(b.SigningKeysOld) > 0 && b.SigningKey == "" {
		f.add(at("signing_keys_old"), "has no meaning without backup.signing_key, by which new backups are signed")
	}
	for _, id := range b.Identities {
		if problem := checkIdentity(string(id)); problem != "" {
			f.add(at("identities"), problem)
		}
	}
	for _, r := range b.Recipients {
		if problem := checkRecipient(r); problem != "" {
			f.add(at("recipients"), c.conceal(at("recipients"), r, problem))
		}
	}
	if keepsNothing(b.Dest) {
		f.add(at("dest"), c.conceal(at("dest"), b.Dest, inThisProcess))
	}
	if b.Webhook != "" {
		checkURL(f, at("webhook"), b.Webhook, "https", "http")
	}
}

func checkEncryption(f *faults, c *Config) {
	for _, id := range sortedKeys(c.Encryption.Keys) {
		if _, problem := decodeKey(c.Encryption.Keys[id]); problem != "" {
			f.add([]string{"encryption", "keys", id}, problem)
		}
	}
	current := c.Encryption.Current
	if _, ok := c.Encryption.Keys[current]; !ok && current != "" {
		at := []string{"encryption", "current"}
		f.add(at, c.conceal(at, current, fmt.Sprintf("there is no key %q under encryption.keys%s", current, didYouMean(current, sortedKeys(c.Encryption.Keys)))))
	}
}

// decodeKey answers the 32 bytes of a key, or what is wrong without showing it.
func decodeKey(text Secret) (k []byte, problem string) {
	s := strings.TrimSpace(string(text))
	if b, err := hex.DecodeString(s); err == nil && len(b) == 32 {
		return b, ""
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := enc.DecodeString(s); err == nil && len(b) == 32 {
			return b, ""
		}
	}
	return nil, "is not 32 bytes as base64 or as 64 hex digits (not shown): make one with openssl rand -base64 32"
}

// parseStrategy reads when checkpoints are made.
func parseStrategy(text string) (name string, every int, problem string) {
	words := []string{"after_tool_call", "after_model_response", "never"}
	if slices.Contains(words, text) {
		return text, 0, ""
	}
	if number, is := strings.CutPrefix(text, "every "); is {
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 {
			return "", 0, fmt.Sprintf("%q: the number of iterations is 1 or more", text)
		}
		return "every", n, ""
	}
	return "", 0, fmt.Sprintf("%q is not known%s", text, didYouMean(text, append(words, "every 3")))
}
