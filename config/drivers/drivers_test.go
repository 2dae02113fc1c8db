// Package drivers_test holds the configuration against the drivers of this
// module. It stands apart so that fuzzing package config does not build them.
package drivers_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers/all"
)

// Every setting of a built-in block reaches the driver of this module that the
// block is for.
func TestTheDriversKnowEverySettingOfTheirBlocks(t *testing.T) {
	for why, yaml := range map[string]string{
		"files": `
memory: {budget: 1MiB, overflow: none, spill_limit: 1MiB, spill_dir: /s}
cache: {driver: file, path: /c}
sqlite: {path: /x.db, synchronous: normal}
file: {base_path: /f, format: msgpack}
`,
		"redis": `
redis:
  url: redis://h
  username: u
  password: p
  prefix: x
  index: false
  allow_eviction: true
  dial_timeout: 2s
  timeout: 3s
  probe_interval: 4s
  ca_file: /ca
  cert_file: /cert
  key_file: /key
  server_name: n
`,
	} {
		c, err := config.Parse([]byte(yaml), config.Drivers(all.Tiers()))
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Resolve(config.DataDir(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range e.Routes {
			d, ok := all.Tiers().Find(r.Tier, r.Driver)
			if !ok {
				t.Fatalf("%s: no driver %s of tier %s", why, r.Driver, r.Tier)
			}
			into := reflect.New(reflect.TypeOf(d.Options).Elem())
			if err := e.Options(r.Tier, nil)(into.Interface()); err != nil {
				t.Errorf("%s: %v", why, err)
			}
			if strings.Contains(yaml, r.Driver+":") && into.Elem().IsZero() {
				t.Errorf("%s: nothing reached the driver of %s", why, r.Tier)
			}
		}
	}
}
