package redis_test

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
)

// open opens a tier that ends with the test.
func open(t *testing.T, o redis.Options) *redis.Tier {
	t.Helper()
	tier, err := redis.Open(t.Context(), redis.Config{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tier.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tier
}

func key(name string) tiers.Key { return tiers.Key{Category: "test", Name: name} }

func record(name, value string) tiers.Record {
	return tiers.Record{Key: key(name), Value: []byte(value), Codec: "raw", Schema: 1}
}

func mustSave(t *testing.T, tier tiers.Tier, r tiers.Record) tiers.Record {
	t.Helper()
	saved, err := tier.Save(t.Context(), r, tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// roundTrip checks that the tier works.
func roundTrip(t *testing.T, tier tiers.Tier) {
	t.Helper()
	mustSave(t, tier, record("round trip", "v"))
	if r, err := tier.Load(t.Context(), key("round trip")); err != nil || string(r.Value) != "v" {
		t.Errorf("load answers %q, %v", r.Value, err)
	}
}

const secret = `p$a#s:s w@rd/`

func TestWaysToConnect(t *testing.T) {
	const acl = "+@read +@write +@scripting +time +info +ping"
	plain := redistest.Start(t)
	locked := redistest.Start(t, "--requirepass", secret)
	users := redistest.Start(t, append([]string{"--user", "app", "on", ">" + secret, "~sage:*"}, strings.Fields(acl)...)...)
	ca := makeCertificates(t)
	tlsPort := strconv.Itoa(redistest.FreePort(t))
	redistest.Start(t, "--port", "0", "--tls-port", tlsPort, "--tls-cert-file", ca.cert, "--tls-key-file", ca.key,
		"--tls-ca-cert-file", ca.ca, "--tls-auth-clients", "yes")
	secure := "rediss://127.0.0.1:" + tlsPort
	escaped := url.UserPassword("default", secret).String()

	for _, c := range []struct {
		name    string
		options redis.Options
		want    string // part of the error
		away    bool   // it opens, and the error is what Away answers
	}{
		{name: "tcp", options: redis.Options{URL: plain.URL()}},
		{name: "another database", options: redis.Options{URL: plain.URL() + "/3"}},
		{name: "unix socket", options: redis.Options{URL: plain.SocketURL()}},
		{name: "password in the url", options: redis.Options{URL: "redis://" + escaped + "@" + locked.Addr()}},
		{name: "password with special characters as an option", options: redis.Options{URL: locked.URL(), Password: secret}},
		{name: "user of an access control list", options: redis.Options{URL: users.URL(), Username: "app", Password: secret}},
		{name: "tls", options: redis.Options{URL: secure, CAFile: ca.ca, CertFile: ca.cert, KeyFile: ca.key}},

		{name: "no password", options: redis.Options{URL: locked.URL()}, want: "wants a password", away: true},
		{name: "wrong password", options: redis.Options{URL: locked.URL(), Password: "wrong-" + secret}, want: "does not accept the user and the password", away: true},
		{name: "wrong user", options: redis.Options{URL: users.URL(), Username: "nobody", Password: secret}, want: "does not accept the user and the password", away: true},
		{name: "user without rights", options: redis.Options{URL: users.URL(), Username: "app", Password: secret, Prefix: "other"}, want: "~other:*"},
		{name: "unknown certificate authority", options: redis.Options{URL: secure}, want: "ca_file"},
		{name: "wrong server name", options: redis.Options{URL: secure, CAFile: ca.ca, ServerName: "elsewhere"}, want: "server_name"},
		{name: "tls to a plain port", options: redis.Options{URL: "rediss://" + plain.Addr()}, want: "use redis:// instead of rediss://"},
		{name: "plain to a tls port", options: redis.Options{URL: "redis://127.0.0.1:" + tlsPort}, want: "use rediss:// instead of redis://"},
		{name: "database that is not there", options: redis.Options{URL: plain.URL() + "/99"}, want: "out of range"},
		{name: "no url", options: redis.Options{URL: "localhost:6379:" + secret}, want: "percent-encoded"},
		{name: "unescaped password", options: redis.Options{URL: "redis://default:" + secret + "@" + locked.Addr()}, want: "percent-encoded"},
		{name: "bad prefix", options: redis.Options{URL: plain.URL(), Prefix: "a{b"}, want: "prefix"},
		{name: "bad epoch", options: redis.Options{URL: plain.URL(), Epoch: "a.b"}, want: "epoch"},
		{name: "certificate without tls", options: redis.Options{URL: plain.URL(), CAFile: ca.ca}, want: "rediss://"},
		{name: "certificate without key", options: redis.Options{URL: secure, CertFile: ca.cert}, want: "key_file"},
		{name: "missing file", options: redis.Options{URL: secure, CAFile: filepath.Join(t.TempDir(), "none")}, want: "ca_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Timeout = 5 * time.Second
			tier, err := redis.Open(t.Context(), redis.Config{Options: c.options})
			// On a busy machine nobody may have answered in time.
			for tries := 0; err == nil && !c.away && tier.Away() != nil && tries < 30; tries++ {
				_ = tier.Close(context.Background())
				tier, err = redis.Open(t.Context(), redis.Config{Options: c.options})
			}
			if err == nil {
				defer func() { _ = tier.Close(context.Background()) }()
				if strings.Contains(tier.Describe().Place, "p$a") {
					t.Errorf("the place shows the password: %s", tier.Describe().Place)
				}
			}
			if c.away {
				if err != nil {
					t.Fatal(err)
				}
				if err = tier.Away(); !errors.Is(err, tiers.ErrUnavailable) {
					t.Errorf("Away answers %v", err)
				}
				if n := strings.Count(err.Error(), "rotated passwords need a restart"); n != 1 {
					t.Errorf("what to do is said %d times: %v", n, err)
				}
				if _, err := tier.Load(t.Context(), key("k")); !errors.Is(err, tiers.ErrUnavailable) {
					t.Errorf("load answers %v", err)
				}
			}
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "":
				roundTrip(t, tier)
				for _, f := range tier.Diagnose(t.Context()) {
					if strings.Contains(f.Message+f.Hint, "p$a") {
						t.Errorf("a finding shows the password: %+v", f)
					}
				}
			case err == nil:
				t.Fatalf("it opened, away: %v", tier.Away())
			case !strings.Contains(err.Error(), c.want):
				t.Errorf("error is %q, want %q in it", err, c.want)
			case strings.Contains(err.Error(), "p$a"):
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// A password that was changed on the server, and back, is an outage.
func TestRefusedPasswordIsAnOutage(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("CONFIG", "SET", "requirepass", "right")
	tier := open(t, redis.Options{URL: srv.URL(), Password: "wrong"})
	if err := tier.Away(); !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "check the user and the password") {
		t.Errorf("away answers %v", err)
	}
	right := open(t, redis.Options{URL: srv.URL(), Password: "right"})
	roundTrip(t, right)
	if err := right.Away(); err != nil {
		t.Errorf("away answers %v", err)
	}
}

func TestEvictionOfAnyRecordIsRefusedUnlessAllowed(t *testing.T) {
	srv := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	_, err := redis.Open(t.Context(), redis.Config{Options: redis.Options{URL: srv.URL()}})
	if err == nil || !strings.Contains(err.Error(), "allow_eviction") {
		t.Errorf("open answers %v", err)
	}
	roundTrip(t, open(t, redis.Options{URL: srv.URL(), AllowEviction: true}))

	srv.Do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	tier := open(t, redis.Options{URL: srv.URL()})
	roundTrip(t, tier)
	found := false
	for _, f := range tier.Diagnose(t.Context()) {
		found = found || !f.OK && f.Subject == "redis eviction" && f.Hint != ""
	}
	if !found {
		t.Error("diagnose does not mention volatile-ttl")
	}
}

// A server that got a bad policy while it was away is not used.
func TestEvictionIsCheckedAgainAfterAnOutage(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL()})
	roundTrip(t, tier)
	srv.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	srv.Freeze()
	until(t, "away", func() bool {
		_, err := load(t, tier, "k", 50*time.Millisecond)
		return err != nil && tier.Away() != nil
	})
	srv.Thaw()
	until(t, "refused", func() bool { err := tier.Away(); return err != nil && strings.Contains(err.Error(), "allow_eviction") })
	srv.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	if err := tier.Ready(timeout(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, tier)
}

func TestFullServerRefusesSavesAndServesLoads(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL()})
	mustSave(t, tier, record("before", "v"))
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := tier.Save(t.Context(), record("after", "v"), tiers.Cond{})
	if !errors.Is(err, tiers.ErrFull) || !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("save answers %v", err)
	}
	if _, err := tier.Load(t.Context(), key("before")); err != nil {
		t.Errorf("load answers %v", err)
	}
	if existed, err := tier.Delete(t.Context(), key("before"), tiers.Cond{}); err != nil || !existed {
		t.Errorf("delete answers %v, %v", existed, err)
	}
	if _, err := tier.Load(t.Context(), key("after")); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("load of what was refused answers %v", err)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "0")
	roundTrip(t, tier)
}
