package config_test

import (
	"fmt"

	"github.com/sagestore/sagestore/config"
)

func ExampleParse() {
	c, err := config.Parse([]byte(`
categories:
  app.drafts: {tier: database, ttl: 30d, codec: msgpack}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Categories["app.drafts"].TTL)
	// Output: 30d
}

func ExampleParse_faults() {
	_, err := config.Parse([]byte(`
default_store: databse
memory: {budget: 64M}
categories:
  app.drafts: {tier: database, ttl: -5}
`), config.Source("config.yaml"))
	fmt.Println(err)
	// Output:
	// config.yaml:2: default_store: there is no tier "databse"; did you mean "database"?
	// config.yaml:3: memory.budget: "64M" is no size: did you mean 64MiB?
	// config.yaml:5: categories.app.drafts.ttl: -5 is negative: write seconds (3600), 90s, 15m, 24h, 30d, 2w, never, session
}

func ExampleAt() {
	file := []byte("listen: :8080\nstorage:\n  default_store: sqlite\n")
	c, err := config.Parse(file, config.At("storage"))
	fmt.Println(c.DefaultStore, err)
	// Output: sqlite <nil>
}

func ExampleConfig_Resolve() {
	c := config.Default()
	c.Redis = &config.Redis{URL: "redis://localhost:6379", TTLDefault: "1h"}
	e, err := c.Resolve(config.DataDir("/var/lib/app"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range e.Routes {
		fmt.Println(r.Tier, r.Driver)
	}
	// Output:
	// memory memory
	// cache redis
	// database sqlite
	// file file
}

func ExampleEffective_Policy() {
	e, err := config.Default().Resolve(config.DataDir("/var/lib/app"))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := e.Policy("session.history", nil)
	fmt.Println(p.Tier, p.TTL, p.Codec, err)

	_, err = e.Policy("session.histroy", nil)
	fmt.Println(err)
	// Output:
	// cache 24h0m0s json <nil>
	// use session.histroy: unknown or invalid category (did you mean "session.history"? else list it under categories, or set default_store)
}

func ExampleSecret() {
	url := config.Secret("redis://app:hunter2@localhost:6379/1")
	fmt.Println(url)
	// Output: redis://app:***@localhost:6379/1
}
