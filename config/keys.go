package config

// key describes one setting. The types of the fields say what it takes; this
// table says what they can't: defaults, the only words allowed, what it means.
type key struct {
	path  string   // "*" stands for a name
	def   string   // default in the YAML grammar; "<data_dir>/..." is below the data directory; "" is none
	words []string // the only values; for a TTL or size, words besides the grammar
	file  bool     // a path: "~/" and relative paths are expanded
	doc   string
}

// keys lists every setting, in the order in which they are shown. It is the one
// place for defaults.
func keys() []key {
	return []key{
		{path: "data_dir", def: "~/.sage", file: true, doc: "where the default places of everything lie"},
		{path: "default_store", doc: "home of categories that no rule names: a tier, or sqlite, postgres or redis for theirs; none: they are an error"},
		{path: "in_memory", def: "false", doc: "every category lives in memory, whatever its tier, and nothing is written to disk"},
		{path: "compress_over", def: "never", words: []string{"never"}, doc: "values larger than this are compressed with zstd"},

		{path: "memory.budget", def: "256MiB", doc: "encoded bytes that the memory tier holds in RAM"},
		{path: "memory.overflow", def: "spill", words: []string{"spill", "none"}, doc: "what happens beyond the budget: spill moves entries to a private file, none refuses the save"},
		{path: "memory.spill_limit", def: "4GiB", doc: "size limit of the spill file"},
		{path: "memory.spill_dir", file: true, doc: "directory of the spill file, which has no name and goes with the process; default: the data directory"},

		{path: "cache.driver", def: "auto", words: []string{"auto", "redis", "file"}, doc: "auto is redis when there is a redis block, else file"},
		{path: "cache.path", def: "<data_dir>/cache", file: true, doc: "directory of the file driver"},
		{path: "cache.journal_limit", def: "256MiB", doc: "bytes of cache writes kept while Redis is away; beyond it saves are refused"},

		{path: "database.driver", words: []string{"sqlite", "postgres"}, doc: "engine of the database tier; needed when both blocks are there, else the one whose block is there, else sqlite"},
		{path: "sqlite.path", def: "<data_dir>/sage.db", file: true, doc: "database file; \":memory:\" is one private store, gone at the end"},
		{path: "sqlite.synchronous", def: "full", words: []string{"full", "normal"}, doc: "normal may lose the last commits at a power loss, never consistency"},
		{path: "postgres.url", doc: "postgres://user@host:5432/database, of version 13 or later; required in the block"},
		{path: "postgres.password", doc: "password as it is, without escaping; instead of one in the URL"},
		{path: "postgres.schema", def: "sagestore", doc: "schema that holds the tables and nothing else"},
		{path: "postgres.sslmode", words: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}, doc: "instead of one in the URL"},
		{path: "postgres.pool", def: "8", doc: "connections for loads at most; besides there are up to four for saves, one for locks, and up to four for snapshots"},
		{path: "postgres.pooler", def: "false", doc: "a pooler such as PgBouncer stands in between"},
		{path: "postgres.statement_timeout", def: "1m", doc: "after which the server ends a statement"},
		{path: "postgres.lock_timeout", def: "30s", doc: "how long a save waits for the writers of other processes"},

		{path: "redis.url", doc: "redis://, rediss:// (TLS) or unix://, of version 6.2 or later; required in the block"},
		{path: "redis.username", doc: "instead of one in the URL"},
		{path: "redis.password", doc: "password as it is, without escaping; instead of one in the URL"},
		{path: "redis.prefix", def: "sage", doc: "first part of every Redis key"},
		{path: "redis.ttl_default", def: "never", words: []string{"never"}, doc: "TTL of categories with home cache that name none, with both cache drivers"},
		{path: "redis.index", def: "true", doc: "keep the ordered index that listing needs"},
		{path: "redis.allow_eviction", def: "false", doc: "accept a server that evicts keys of its own accord"},
		{path: "redis.dial_timeout", doc: "for connecting; 1s by default"},
		{path: "redis.timeout", doc: "for a command that has no earlier deadline; 1s by default"},
		{path: "redis.probe_interval", doc: "between attempts to reach a server that is away; 100ms by default"},
		{path: "redis.ca_file", file: true, doc: "certificate authority of the server, PEM"},
		{path: "redis.cert_file", file: true, doc: "client certificate, PEM"},
		{path: "redis.key_file", file: true, doc: "key of the client certificate, PEM"},
		{path: "redis.server_name", doc: "name that the server's certificate must have; default: the host of the URL"},

		{path: "file.base_path", def: "<data_dir>/data", file: true, doc: "directory of the file tier"},
		{path: "file.format", def: "json", words: []string{"json", "msgpack"}, doc: "codec of categories with home file that name none"},

		{path: "tiers.*.driver", doc: "driver of a tier of the app's own; the driver's options stand beside it"},

		{path: "categories.*.tier", doc: "home: memory, cache, database, file, a tier of the app's own, or sqlite, postgres or redis for theirs"},
		{path: "categories.*.ttl", words: []string{"never", "session"}, doc: "how long an entry lives; default: redis.ttl_default when the home is cache, else never"},
		{path: "categories.*.codec", doc: "json, msgpack, gob, raw or one of the app's; default: file.format when the home is file, else json"},
		{path: "categories.*.near", doc: "faster tier in front of the home: memory"},
		{path: "categories.*.near_ttl", def: "30s", doc: "how long a near entry may serve without asking the home"},
		{path: "categories.*.near_size", def: "32MiB", doc: "room of the near layer; what it has no room for is asked of the home"},
		{path: "categories.*.max_value", def: "16MiB", doc: "largest encoded value"},
		{path: "categories.*.compress_over", words: []string{"never"}, doc: "values larger than this are compressed with zstd; default: the top-level compress_over"},
		{path: "categories.*.encrypt", def: "false", doc: "encrypt values with the current key of encryption"},

		{path: "session.idle_limit", def: "never", words: []string{"never"}, doc: "a session that rests longer is ended"},

		{path: "checkpoints.enabled", def: "true", doc: "make checkpoints of agents"},
		{path: "checkpoints.interval", def: "300", doc: "time between automatic checkpoints"},
		{path: "checkpoints.max", def: "10", doc: "untagged checkpoints kept for an agent"},
		{path: "checkpoints.before_operations", def: "true", doc: "make one before a dangerous operation"},
		{path: "checkpoints.strategy", def: "after_tool_call", doc: "after_tool_call, after_model_response, every N (iterations) or never"},

		{path: "backup.enabled", def: "false", doc: "run the scheduled backup; true when there is a backup block that does not say"},
		{path: "backup.interval", def: "daily", words: []string{"hourly", "daily", "weekly"}, doc: "hourly is on the hour, weekly is on Sunday"},
		{path: "backup.at", def: "03:30", doc: "time of day of a daily or weekly backup"},
		{path: "backup.zone", def: "Local", doc: "IANA name of the time zone of at and cron"},
		{path: "backup.cron", doc: "five fields, instead of interval and at"},
		{path: "backup.dest", def: "<data_dir>/backups", file: true, doc: "directory, or URL of a bucket"},
		{path: "backup.retention", def: "7", doc: "verified backups kept: a number of them, or an age such as 7d"},
		{path: "backup.keep.last", doc: "the newest so many verified backups, instead of retention; default: retention"},
		{path: "backup.keep.daily", def: "0", doc: "besides, the last backup of so many days"},
		{path: "backup.keep.weekly", def: "0", doc: "besides, the last backup of so many weeks"},
		{path: "backup.keep.monthly", def: "0", doc: "besides, the last backup of so many months"},
		{path: "backup.jitter", words: []string{"none"}, doc: "by how much later backups begin at most, each store always equally late; default: 10m when daily or weekly, none when hourly or by cron"},
		{path: "backup.recipients", doc: "age public keys to encrypt to; none: not encrypted"},
		{path: "backup.identities", doc: "age private keys, for verifying, rehearsing and restoring; making backups needs none"},
		{path: "backup.signing_key", doc: "signs manifests, at least 16 bytes; with it, what is signed neither by it nor by one of signing_keys_old is refused"},
		{path: "backup.signing_keys_old", doc: "earlier signing keys: backups signed by them are accepted, new ones are not signed by them; not for a key that somebody else may have"},
		{path: "backup.rehearse", def: "weekly", words: []string{"never", "always", "daily", "weekly", "monthly"}, doc: "how often a new backup is restored to a temporary place and compared"},
		{path: "backup.temp", file: true, doc: "directory where backups are unpacked to be verified; default: the system's"},
		{path: "backup.webhook", doc: "URL to which each outcome is posted as JSON"},
		{path: "backup.on_success", doc: "command told about each success: one line for the shell, or a list of a program and its arguments"},
		{path: "backup.on_failure", doc: "command told about each failure"},
		{path: "backup.cache", def: "false", doc: "include the cache tier, when it keeps files; Redis is never in a backup"},

		{path: "encryption.current", doc: "id of the key for new values"},
		{path: "encryption.keys.*", doc: "32 bytes as base64 or 64 hex digits, by id; old keys stay for reading"},
	}
}
