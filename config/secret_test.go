package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/sagestore/sagestore/config"
)

func TestASecretIsNeverShown(t *testing.T) {
	for _, c := range []struct{ secret, want string }{
		{"", ""},
		{"hunter2", "***"},
		{"hunter2:x", "***"},
		{"hunter2://x", "***"},
		{"host=h password=hunter2", "***"},
		{"redis://h:6379/2", "redis://h:6379/2"},
		{"redis://u:hunter2@h:6379/2", "redis://u:***@h:6379/2"},
		{"redis://hunter2@h", "redis://***@h"},
		{"redis://u:hunter2%zz@h", "***"},
		{"unix://u:hunter2@/run/redis.sock?db=1", "unix://u:***@/run/redis.sock?***"},
		{"postgres://u:hunter2@h/d?password=hunter2", "postgres://u:***@h/d?***"},
		{"https://hooks.example/hunter2/x", "https://hooks.example/***"},
		{"https://h#hunter2", "https://h#***"},
	} {
		s := config.Secret(c.secret)
		if s.String() != c.want {
			t.Errorf("%q shows as %q, want %q", c.secret, s, c.want)
		}
		holder := struct {
			S config.Secret
			L []config.Secret
			M map[string]config.Secret
		}{s, []config.Secret{s}, map[string]config.Secret{"k": s}}
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "s", s, "h", holder)
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "s", s, "h", holder)
		j, err := json.Marshal(holder)
		if err != nil {
			t.Fatal(err)
		}
		y, err := yaml.Marshal(holder)
		if err != nil {
			t.Fatal(err)
		}
		shown := []string{logged.String(), string(j), string(y)}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
			shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, holder))
		}
		for _, text := range shown {
			if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e746572") {
				t.Errorf("%q shows in %s", c.secret, text)
			}
		}
	}
}

func TestAConfigurationHidesItsSecrets(t *testing.T) {
	key := "68756e74657232" + strings.Repeat("0", 50) // hunter2 in hexadecimal
	c := parse(t, `
redis: {url: "redis://u:hunter2@h"}
postgres: {url: postgres://h/d, password: hunter2}
database: {driver: postgres}
backup: {webhook: https://h/hunter2, signing_key: hunter2-hunter2-hunter2, signing_keys_old: [old-hunter2-hunter2], identities: [AGE-SECRET-KEY-1XTEFK45AZWAEXF8QZEY8WX3Y09J60S3RRR523EZE0R27Y0E095HS7APPSH]}
encryption: {current: k, keys: {k: "${env:KEY}"}}
tiers: {archive: {driver: s3, api_key: hunter2, bucket: "s3://hunter2:hunter2@h", prefix: "${env:P}"}}
`, env(map[string]string{"KEY": key, "P": "hunter2"}))
	e := resolve(t, c)
	if len(e.Encryption.Keys["k"]) != 32 {
		t.Fatalf("key has %d bytes", len(e.Encryption.Keys["k"]))
	}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "c", c, "e", e)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "c", c, "k", e.Encryption, "s", e.Settings())
	j, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		logged.String(), string(j), string(y), fmt.Sprintf("%v %+v %#v", c, c, c), fmt.Sprintf("%v %+v %#v", e, e, e), fmt.Sprint(e.Settings(), e.Warnings()),
	} {
		for _, secret := range []string{"hunter2", "1XTEFK45AZ", "68756e74657232", "104 117 110 116"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows in %s", secret, text)
			}
		}
	}
}
