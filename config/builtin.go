package config

// builtin is the rule of a category that every store knows.
type builtin struct {
	name string
	tier string
	ttl  TTL
}

func builtins() []builtin {
	return []builtin{
		{"session.context", "memory", UntilSessionEnds},
		{"session.history", "cache", "24h"},
		{"session.preferences", "database", Never},
		{"session.state", "database", Never},
		{"session.events", "database", Never},
		{"knowledge.content", "memory", UntilSessionEnds},
		{"knowledge.bodies", "memory", Never},
		{"knowledge.tokens", "cache", "1h"},
		{"knowledge.usage", "database", Never},
		{"knowledge.access", "database", "30d"},
		{"learning.patterns", "database", Never},
		{"learning.optimizations", "database", Never},
		{"learning.feedback", "database", Never},
		{"config", "file", Never},
		{"agent.state", "database", Never},
		{"agent.conversations", "database", Never},
		{"agent.checkpoints", "database", Never},
		{"agent.fields", "database", Never},
	}
}

func findBuiltin(name string) (Category, bool) {
	for _, b := range builtins() {
		if b.name == name {
			return Category{Tier: b.tier, TTL: b.ttl}, true
		}
	}
	return Category{}, false
}
