package config

// Memory sets up the memory tier.
type Memory struct {
	Budget     Size   `yaml:"budget"`
	Overflow   string `yaml:"overflow"` // spill or none
	SpillLimit Size   `yaml:"spill_limit"`
	SpillDir   string `yaml:"spill_dir"`
}

// Cache sets up the cache tier.
type Cache struct {
	Driver       string `yaml:"driver"` // auto, redis or file
	Path         string `yaml:"path"`   // of the file driver
	JournalLimit Size   `yaml:"journal_limit"`
}

// Database says which engine the database tier uses.
type Database struct {
	Driver string `yaml:"driver"` // sqlite or postgres
}

// SQLite sets up the database tier's SQLite engine.
type SQLite struct {
	Path        string `yaml:"path"` // ":memory:" is one private store, gone at Close
	Synchronous string `yaml:"synchronous"`
}

// Postgres sets up the database tier's PostgreSQL engine.
type Postgres struct {
	URL      Secret `yaml:"url"`
	Password Secret `yaml:"password"` // as it is; beats escaping it into the URL
	Schema   string `yaml:"schema"`
	SSLMode  string `yaml:"sslmode"`
	Pool     int    `yaml:"pool"` // connections for loads
	Pooler   bool   `yaml:"pooler"`

	StatementTimeout Duration `yaml:"statement_timeout"` // of one statement
	LockTimeout      Duration `yaml:"lock_timeout"`      // for the writers of other processes
}

// Redis sets up the cache tier's Redis driver.
type Redis struct {
	URL           Secret   `yaml:"url"`
	Username      string   `yaml:"username"`
	Password      Secret   `yaml:"password"` // as it is; beats escaping it into the URL
	Prefix        string   `yaml:"prefix"`
	TTLDefault    TTL      `yaml:"ttl_default"` // of cache categories that name none
	Index         *bool    `yaml:"index"`
	AllowEviction bool     `yaml:"allow_eviction"`
	DialTimeout   Duration `yaml:"dial_timeout"`
	Timeout       Duration `yaml:"timeout"`        // of a command
	ProbeInterval Duration `yaml:"probe_interval"` // between attempts to reach a server that is away
	CAFile        string   `yaml:"ca_file"`        // PEM files, for TLS
	CertFile      string   `yaml:"cert_file"`
	KeyFile       string   `yaml:"key_file"`
	ServerName    string   `yaml:"server_name"` // that the server's certificate must have
}

// File sets up the file tier.
type File struct {
	BasePath string `yaml:"base_path"`
	Format   string `yaml:"format"` // codec of file categories that name none: json or msgpack
}

// Session sets up sessions.
type Session struct {
	IdleLimit TTL `yaml:"idle_limit"` // a session that rests longer is ended
}

// Checkpoints sets up the checkpoints of agents.
type Checkpoints struct {
	Enabled          *bool    `yaml:"enabled"`
	Interval         Duration `yaml:"interval"`
	Max              int      `yaml:"max"` // untagged ones kept for an agent
	BeforeOperations *bool    `yaml:"before_operations"`
	Strategy         string   `yaml:"strategy"`
}

// Backup sets up the nightly backup. In YAML a block that does not say enabled
// is enabled.
type Backup struct {
	Enabled    bool      `yaml:"enabled"`
	Interval   string    `yaml:"interval"` // hourly, daily or weekly
	At         string    `yaml:"at"`       // local time, "03:30"
	Zone       string    `yaml:"zone"`     // IANA name; "": the machine's
	Cron       string    `yaml:"cron"`     // instead of interval and at
	Dest       string    `yaml:"dest"`     // directory, or URL of a bucket
	Retention  Retention `yaml:"retention"`
	Keep       Keep      `yaml:"keep"`
	Jitter     TTL       `yaml:"jitter"`      // by how much stores are spread; "none"
	Recipients []string  `yaml:"recipients"`  // age public keys
	Identities []Secret  `yaml:"identities"`  // age private keys
	SigningKey Secret    `yaml:"signing_key"` // of manifests, 16 bytes at least
	// SigningKeysOld are earlier ones: what they have signed is accepted, and nothing new
	// is signed by them.
	SigningKeysOld []Secret `yaml:"signing_keys_old"`
	Rehearse       string   `yaml:"rehearse"`   // how often a backup is restored to a temporary place: never, weekly, ...
	Temp           string   `yaml:"temp"`       // directory for what is unpacked to be verified; "": the system's
	Webhook        Secret   `yaml:"webhook"`    // URL told about each outcome
	OnSuccess      []string `yaml:"on_success"` // command told about it: a line for the shell, or a program and its arguments
	OnFailure      []string `yaml:"on_failure"`
	Cache          bool     `yaml:"cache"` // include the cache tier, where it keeps files
}

// Keep is what a backup's retention keeps: the newest so many, instead of
// retention, and besides the last backup of so many days, weeks and months.
type Keep struct {
	Last    int `yaml:"last"`
	Daily   int `yaml:"daily"`
	Weekly  int `yaml:"weekly"`
	Monthly int `yaml:"monthly"`
}

// Encryption holds the keys of categories that ask for it.
type Encryption struct {
	Current string            `yaml:"current"` // id of the key for new values
	Keys    map[string]Secret `yaml:"keys"`    // by id: 32 bytes as base64 or as 64 hex digits
}
