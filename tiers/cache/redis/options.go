package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

// Options are the settings of the tier. The zero value of each field is its
// default.
type Options struct {
	// URL is redis://[user:password@]host[:port][/db], rediss:// for TLS, or
	// unix://[user:password@]/path/to/socket[?db=n]. Characters such as # / : @
	// in a password are percent-encoded here, and not in Password.
	// Default: redis://127.0.0.1:6379.
	URL      string
	Username string // wins over the user in URL
	Password string // wins over the password in URL

	// Prefix begins every key; two prefixes never see each other. Default: sage.
	Prefix string
	// Epoch separates the generations of one store; see the manager.
	Epoch string
	// Index keeps the keys of a space in order, which List, Count and Sweep
	// need. Default: true.
	Index *bool
	// AllowEviction accepts a server that may throw away any record when its
	// memory is full (maxmemory-policy allkeys-*).
	AllowEviction bool
	// MaxValue is the largest value, in bytes. Default: what Redis can hold,
	// 512 MiB less 4 KiB.
	MaxValue int64

	// DialTimeout limits making a connection. Default: 1s.
	DialTimeout time.Duration
	// Timeout limits a command that has no earlier deadline, plus 1 s for every
	// 16 MiB that it carries. A server that answers nobody for that long
	// counts as away. Default: 1s.
	Timeout time.Duration
	// ProbeInterval is the pause between attempts to reach a server that is
	// away. Default: 100ms.
	ProbeInterval time.Duration

	// For TLS: an own certificate authority, a client certificate with its key,
	// and the name that the server's certificate must have (default: the
	// host). Paths of PEM files.
	CAFile     string `yaml:"ca_file"`
	CertFile   string
	KeyFile    string
	ServerName string
}

// Config is what [Open] needs. Only fields that differ from their defaults need
// to be set.
type Config struct {
	Options
	Name  string       // of the tier, in errors. Default: cache
	Log   *slog.Logger // Default: discards
	Clock tiers.Clock  // paces the attempts to reach a server that is away. Default: the system's
}

const (
	defaultURL    = "redis://127.0.0.1:6379"
	defaultPrefix = "sage"
	largestValue  = 512<<20 - 4<<10
)

// Driver is the entry of this driver in a registry: redis, for the cache.
func Driver() tiers.Driver {
	defaults := withDefaults(Config{}).Options
	return tiers.Driver{
		Tier: "cache", Name: "redis", Options: &defaults,
		Open: func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			o := withDefaults(Config{}).Options
			if env.Options != nil {
				if err := env.Options(&o); err != nil {
					return nil, err
				}
			}
			t, err := Open(ctx, Config{Options: o, Name: env.Name, Log: env.Log, Clock: env.Clock})
			if err != nil {
				return nil, err // not a nil *Tier in an interface
			}
			return t, nil
		},
	}
}

func withDefaults(c Config) Config {
	c.URL = cmp.Or(c.URL, defaultURL)
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	if c.Index == nil {
		yes := true
		c.Index = &yes
	}
	c.MaxValue = cmp.Or(c.MaxValue, largestValue)
	c.DialTimeout = cmp.Or(c.DialTimeout, time.Second)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	c.ProbeInterval = cmp.Or(c.ProbeInterval, 100*time.Millisecond)
	c.Name = cmp.Or(c.Name, "cache")
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = tiers.SystemClock()
	}
	return c
}

func (c *Config) check() error {
	switch {
	case c.MaxValue < 0 || c.MaxValue > largestValue:
		return fmt.Errorf("redis: max_value is %d, it can be 1 to %d bytes", c.MaxValue, int64(largestValue))
	case c.DialTimeout < 0 || c.Timeout < 0 || c.ProbeInterval < 0:
		return errors.New("redis: dial_timeout, timeout and probe_interval can't be negative")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("redis: cert_file and key_file are given together or not at all")
	}
	return nil
}

// errURL replaces what the URL's parser says, which would show passwords.
var errURL = errors.New("redis: the url is not redis://[user:password@]host[:port][/db], rediss:// or unix:///path; " +
	"characters such as # / : @ in a password have to be percent-encoded, or given with the password option")

// client translates the settings for the driver below.
func (c *Config) client() (*goredis.Options, error) {
	o, err := goredis.ParseURL(c.URL)
	if err != nil {
		return nil, errURL
	}
	o.Username = cmp.Or(c.Username, o.Username)
	o.Password = cmp.Or(c.Password, o.Password)
	if err := c.tls(o); err != nil {
		return nil, err
	}
	o.Protocol = 3
	o.MaxRetries = -1 // a command that was lost is not sent twice behind our back
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.DialTimeout = c.DialTimeout
	o.ReadTimeout, o.WriteTimeout = -1, -1 // each flight has a context with its own
	o.MinIdleConns, o.MaxActiveConns = 0, 0
	o.PipelinePoolSize = -1
	o.DisableIdentity = true
	o.MaintNotificationsConfig = noMaintenance()
	return o, nil
}

func (c *Config) tls(o *goredis.Options) error {
	if o.TLSConfig == nil {
		if c.CAFile != "" || c.CertFile != "" || c.ServerName != "" {
			return errors.New("redis: ca_file, cert_file and server_name need a rediss:// url")
		}
		return nil
	}
	o.TLSConfig.ServerName = cmp.Or(c.ServerName, o.TLSConfig.ServerName)
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return fmt.Errorf("redis: ca_file: %w", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("redis: ca_file %s holds no certificate in PEM form", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return fmt.Errorf("redis: cert_file and key_file: %w", err)
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// place names the server without any secret.
func place(o *goredis.Options, secure bool) string {
	if o.Network == "unix" {
		return "unix://" + o.Addr + "?db=" + strconv.Itoa(o.DB)
	}
	scheme := "redis"
	if secure {
		scheme = "rediss"
	}
	return scheme + "://" + o.Addr + "/" + strconv.Itoa(o.DB)
}
