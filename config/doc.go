// Package config reads the configuration of a store: one YAML file, or a part
// of the app's own, or plain Go data.
//
//	cfg, err := config.Load("sagestore.yaml")
//
// It is strict. An unknown or repeated key, a second document, a wrong type or
// an impossible value is an [*Error] with file, line, the path of the key and
// the nearest right name, and all of them are reported at once. Secrets never
// show in an error, a log or a printed Config.
//
// [Config.Resolve] turns a Config into what it comes to: the tiers with their
// drivers and options, and the policy of every category.
package config
