package sagestore_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deps answers the packages that a program with these packages links.
func deps(t *testing.T, pkgs ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, pkgs...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func TestEachTierLinksOnlyItsOwnDriver(t *testing.T) {
	const (
		ristretto = "github.com/dgraph-io/ristretto/v2"
		sqlite    = "modernc.org/sqlite"
		redis     = "github.com/redis/go-redis/v9"
		postgres  = "github.com/jackc/pgx/v5"
		yaml      = "gopkg.in/yaml.v3"
		buckets   = "gocloud.dev/blob"
		amazon    = "github.com/aws/aws-sdk-go-v2/service/s3"
		azure     = "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
		google    = "cloud.google.com/go/storage"
		grpc      = "google.golang.org/grpc"
	)
	for _, c := range []struct {
		why     string
		pkgs    []string
		with    []string
		without []string
	}{
		{"the contract rests on the standard library", []string{"./tiers"}, nil, []string{ristretto, sqlite, redis, postgres, yaml, "golang.org/x/sys/unix"}},
		{"memory needs no other store", []string{"./tiers/memory"}, []string{ristretto}, []string{sqlite, redis, postgres, yaml}},
		{"SQLite needs no server's client", []string{"./tiers/database"}, []string{sqlite}, []string{ristretto, redis, postgres, yaml}},
		{"PostgreSQL needs no other store", []string{"./tiers/database/postgres"}, []string{postgres}, []string{ristretto, sqlite, redis, yaml}},
		{"every driver is there for who wants all", []string{"./tiers/all"}, []string{ristretto, sqlite, redis, postgres}, nil},
		{"Redis needs no other store", []string{"./tiers/cache/redis"}, []string{redis}, []string{ristretto, sqlite, postgres, yaml}},
		{"the local cache needs no driver", []string{"./tiers/cache/file"}, nil, []string{ristretto, sqlite, redis, postgres, yaml}},
		{"files need no driver", []string{"./tiers/file"}, nil, []string{ristretto, sqlite, redis, postgres, yaml}},
		{"the manager knows no concrete tier", []string{"./manager"}, []string{yaml}, []string{ristretto, sqlite, redis, postgres}},
		{"an embedded app links no server's client", []string{"./manager", "./tiers/embedded"}, []string{ristretto, sqlite}, []string{redis, postgres}},
		{"an app that makes backups links no cloud", []string{"./manager", "./backup", "./tiers/all"}, []string{"filippo.io/age"}, []string{buckets, amazon, azure, google, grpc}},
		{"the clients of clouds are linked with the buckets", []string{"./backup/cloud"}, []string{buckets, amazon, azure, google}, []string{sqlite, redis, ristretto, postgres}},
		{"sessions need no store but what they are given", []string{"./session"}, nil, []string{ristretto, sqlite, redis, postgres, buckets, amazon, azure, google, grpc}},
		{"what is known needs no store but what it is given", []string{"./knowledge"}, nil, []string{ristretto, sqlite, redis, postgres, buckets, amazon, azure, google, grpc}},
		{"what is learnt needs no store but what it is given", []string{"./learning"}, nil, []string{ristretto, sqlite, redis, postgres, buckets, amazon, azure, google, grpc}},
		{"agents need no store but what they are given", []string{"./agent"}, nil, []string{ristretto, sqlite, redis, postgres, buckets, amazon, azure, google, grpc}},
		{"an app with agents in SQLite links no server's client and no cloud", []string{"./agent", "./manager", "./tiers/database"}, []string{sqlite}, []string{ristretto, redis, postgres, buckets, amazon, azure, google, grpc}},
		{"the example links no PostgreSQL", []string{"./examples/agent"}, []string{ristretto, sqlite, redis}, []string{postgres}},
	} {
		got := deps(t, c.pkgs...)
		for _, p := range c.with {
			if !slices.Contains(got, p) {
				t.Errorf("%s: %v do not link %s", c.why, c.pkgs, p)
			}
		}
		for _, p := range c.without {
			if slices.Contains(got, p) {
				t.Errorf("%s: %v link %s", c.why, c.pkgs, p)
			}
		}
	}
}

func TestOrderedPackagesAreDirectRequirements(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	linked := deps(t, "./cmd/sagestore")
	for _, p := range []string{
		"github.com/redis/go-redis/v9", "modernc.org/sqlite", "github.com/dgraph-io/ristretto/v2",
		"github.com/vmihailenco/msgpack/v5", "gopkg.in/yaml.v3",
	} {
		if !regexp.MustCompile(`(?m)^\s` + regexp.QuoteMeta(p) + ` v\S+$`).Match(mod) {
			t.Errorf("%s is no direct requirement", p)
		}
		if !slices.Contains(linked, p) {
			t.Errorf("%s is required and not linked", p)
		}
	}
}

func TestNoPackageIsUnsafe(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
		if imported == "unsafe" || imported == "C" {
			t.Errorf("%s imports %s", pkg, imported)
		}
	}
}
