package config

import (
	"os"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// Option changes how a configuration is read, checked or resolved.
type Option interface{ apply(o *options) }

type optionFunc func(o *options)

func (f optionFunc) apply(o *options) { f(o) }

type options struct {
	at, source, dataDir, restored string
	lookup                        func(string) (string, bool)
	drivers                       tiers.Drivers
	codecs                        []string
	foreign                       bool
}

func gather(opts []Option) options {
	o := options{lookup: os.LookupEnv, codecs: []string{"json", "msgpack", "gob", "raw"}}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// At reads only the sub-tree at a path such as "app.persistence"; only it is
// strict, and lines stay those of the whole file.
func At(path string) Option { return optionFunc(func(o *options) { o.at = path }) }

// Source names the file that the bytes given to [Parse] came from: for errors,
// and because relative paths are relative to it.
func Source(name string) Option { return optionFunc(func(o *options) { o.source = name }) }

// Lookup replaces [os.LookupEnv], for ${env:NAME} and for HOME.
func Lookup(env func(string) (string, bool)) Option {
	return optionFunc(func(o *options) { o.lookup = env })
}

// DataDir overrules data_dir, which moves the default places only: a path that
// the configuration names stays.
func DataDir(dir string) Option { return optionFunc(func(o *options) { o.dataDir = dir }) }

// Drivers checks that the drivers which the configuration needs are there, and
// the blocks of own tiers against their options.
func Drivers(ds tiers.Drivers) Option { return optionFunc(func(o *options) { o.drivers = ds }) }

// Codecs adds names of the app's own codecs to those that categories may name.
func Codecs(names ...string) Option {
	return optionFunc(func(o *options) { o.codecs = append(slices.Clip(o.codecs), names...) })
}
