package config

import (
	"maps"
	"slices"

	"github.com/sagestore/sagestore/internal/nearest"
)

// Foreign takes codecs, and drivers of own tiers, that the program lacks for
// those of the app whose file it is, unless one that it has is named nearly so.
// It is for tools that open the stores of any app; [Effective.Foreign] answers
// what has to be stood in for.
func Foreign() Option { return optionFunc(func(o *options) { o.foreign = true }) }

// Foreign answers the codecs and the drivers that the configuration names and
// that the program lacks.
func (e *Effective) Foreign() (codecs, drivers []string) {
	names := make(map[string]bool)
	for _, c := range e.raw.Categories {
		if c.Codec != "" && !slices.Contains(e.codecs, c.Codec) {
			names[c.Codec] = true
		}
	}
	codecs = slices.Sorted(maps.Keys(names))
	clear(names)
	for _, t := range e.raw.Tiers {
		if _, err := FindDriver(e.options.drivers, t.Driver); err != nil {
			names[t.Driver] = true
		}
	}
	return codecs, slices.Sorted(maps.Keys(names))
}

// foreignCodec tells whether the name may be that of an app's codec.
func (o *options) foreignCodec(name string) bool {
	if !o.foreign || nearest.Name(name, o.codecs) != "" || len(name) > 32 || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return true
}

// foreignDriver tells the same of a driver.
func (o *options) foreignDriver(name string) bool {
	var names []string
	for _, d := range o.drivers {
		names = append(names, d.Name)
	}
	return o.foreign && nearest.Name(name, names) == "" && !slices.Contains(names, name)
}
