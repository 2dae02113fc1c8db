package config

// Config says where each kind of data lives. It is plain data: every zero value
// is its default, the YAML keys are the field names in snake_case, and it can be
// filled from Go without any YAML. Nothing in this package keeps or changes a
// Config that it was given; do not change one while it is in use elsewhere.
type Config struct {
	DataDir      string `yaml:"data_dir"`      // where the defaults of all paths lie; "~/.sage"
	DefaultStore string `yaml:"default_store"` // tier, or engine that stands for one, of categories without a rule; "": they are an error
	InMemory     bool   `yaml:"in_memory"`     // every category lives in memory, whatever its tier; nothing is written to disk
	CompressOver Size   `yaml:"compress_over"` // zstd for larger values; never

	Memory   Memory          `yaml:"memory"`
	Cache    Cache           `yaml:"cache"`
	Database Database        `yaml:"database"`
	SQLite   SQLite          `yaml:"sqlite"`
	Postgres *Postgres       `yaml:"postgres"` // nil: not used
	Redis    *Redis          `yaml:"redis"`    // nil: not used
	File     File            `yaml:"file"`
	Tiers    map[string]Tier `yaml:"tiers"` // the app's own, by name

	Categories map[string]Category `yaml:"categories"`

	Session     Session     `yaml:"session"`
	Checkpoints Checkpoints `yaml:"checkpoints"`
	Backup      Backup      `yaml:"backup"`
	Encryption  Encryption  `yaml:"encryption"`

	origin *origin // where the values were written; nil for one made in Go
}

// Default answers the configuration of an app that says nothing.
func Default() *Config { return &Config{} }

// InMemory answers a configuration that keeps every category in memory: no
// file, no spilling, no backup. Names that nothing else rules live there too.
func InMemory() *Config {
	return &Config{InMemory: true, DefaultStore: "memory", Memory: Memory{Overflow: "none"}}
}

// Category is the policy of one kind of data. What it leaves out comes from the
// next rule that has it: the built-in one of the same name, a library's, the
// parent's.
type Category struct {
	Tier         string   `yaml:"tier"`
	TTL          TTL      `yaml:"ttl"`
	Codec        string   `yaml:"codec"`
	Near         []string `yaml:"near"` // tiers in front of the home
	NearTTL      TTL      `yaml:"near_ttl"`
	NearSize     Size     `yaml:"near_size"`
	MaxValue     Size     `yaml:"max_value"`
	CompressOver Size     `yaml:"compress_over"`
	Encrypt      *bool    `yaml:"encrypt"`
}

// Tier is a store of the app's own. In YAML its driver's options stand beside
// the driver's name; in Go they are the driver's own option struct, or a
// pointer to one.
type Tier struct {
	Driver  string `yaml:"driver"`
	Options any    `yaml:"-"`

	written *block // the options as they stand in the YAML
}
