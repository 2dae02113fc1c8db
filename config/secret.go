package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// hidden stands for a secret wherever one would be shown.
const hidden = "***"

// Secret is a text that is never shown: formatting, marshalling and logging it
// give "***" in its place, or a URL without its password. Convert it to string
// to use it.
type Secret string

// String answers what may be shown.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(string(s))
	if err != nil || u.Opaque != "" {
		return hidden
	}
	switch u.Scheme {
	case "redis", "rediss", "unix", "postgres", "postgresql":
	case "http", "https":
		if len(u.Path) > 1 { // the path of a webhook is its secret
			u.Path, u.RawPath = "/"+hidden, ""
		}
	default:
		return hidden
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hidden)
	} else if u.User != nil {
		u.User = url.User(hidden) // a token may stand where the name does
	}
	if u.RawQuery != "" {
		u.RawQuery = hidden
	}
	if u.Fragment != "" {
		u.Fragment = hidden
	}
	return strings.ReplaceAll(u.String(), "%2A%2A%2A", hidden)
}

// GoString hides it from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format hides it from every verb.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		text = s.GoString()
	}
	_, _ = f.Write([]byte(text)) // fmt.State never fails
}

// MarshalText hides it from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML hides it from YAML.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue hides it from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
