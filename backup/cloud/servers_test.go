package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/backup/buckettest"
	"github.com/sagestore/sagestore/backup/cloud"
	"github.com/sagestore/sagestore/internal/cloudtest"
	"github.com/sagestore/sagestore/tiers"
)

// service is one of those whose clients are linked.
type service struct {
	name  string
	start func(testing.TB) *cloudtest.Server
	where string // of its credentials, in an error
	stays bool   // what an upload that failed has sent; the service removes it after a week
}

func services() []service {
	return []service{
		{"S3", cloudtest.S3, "AWS_ACCESS_KEY_ID", false},
		{"Google", cloudtest.Google, "GOOGLE_APPLICATION_CREDENTIALS", true},
		{"Azure", cloudtest.Azure, "AZURE_STORAGE_KEY", true},
	}
}

func TestAServiceIsABucket(t *testing.T) {
	for _, c := range services() {
		t.Run(c.name, func(t *testing.T) {
			var s *cloudtest.Server
			buckettest.Run(t, buckettest.Config{
				Open: func(tb testing.TB) backup.Bucket {
					tb.Helper()
					s = c.start(tb)
					tb.Cleanup(func() {
						if n := s.Unfinished(); n > 0 && !c.stays {
							tb.Errorf("%d uploads were neither ended nor aborted", n)
						}
						for _, name := range s.Objects() {
							if !strings.HasPrefix(name, "below/this/") {
								tb.Errorf("%s is not below the path", name)
							}
						}
					})
					return open(tb, s.URL("below/this"))
				},
				Fill: func(_ testing.TB, _ backup.Bucket, names []string) {
					for _, name := range names {
						s.Fill("below/this/" + name)
					}
				},
				Names: 2500, // of more than two pages
			})
		})
	}
}

func TestAStoreComesBackFromAService(t *testing.T) {
	for _, c := range services() {
		t.Run(c.name, func(t *testing.T) { backUpAndRestore(t, open(t, c.start(t).URL("below/this"))) })
	}
}

func TestWhatAServiceAnswersIsToldAsWhatIsKnown(t *testing.T) {
	for _, c := range services() {
		t.Run(c.name, func(t *testing.T) {
			s := c.start(t)
			absent := strings.Replace(s.URL("below/this"), "//"+cloudtest.Bucket, "//other", 1)
			if _, err := cloud.Open(t.Context(), absent); !errors.Is(err, tiers.ErrNotFound) || !strings.Contains(err.Error(), "make the bucket first") {
				t.Errorf("a bucket that is absent: %v", err)
			}
			b := open(t, s.URL("below/this"))
			for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
				s.Refuse(func(*http.Request) int { return status })
				_, openErr := cloud.Open(t.Context(), s.URL(""))
				_, getErr := b.Get(t.Context(), "a")
				var listErr error
				for _, listErr = range b.List(t.Context(), "") {
					break
				}
				for did, err := range map[string]error{
					"open": openErr, "get": getErr, "list": listErr,
					"put": b.Put(t.Context(), "a", strings.NewReader("x")), "delete": b.Delete(t.Context(), "a"),
				} {
					if !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), c.where) || strings.Contains(err.Error(), cloudtest.Secret) {
						t.Errorf("%s that is answered by %d: %v", did, status, err)
					}
				}
			}
			s.Refuse(func(*http.Request) int { return http.StatusRequestEntityTooLarge })
			if err := b.Put(t.Context(), "a", strings.NewReader("x")); !errors.Is(err, tiers.ErrTooLarge) || !strings.Contains(err.Error(), "put a") {
				t.Errorf("what is too large: %v", err)
			}
			s.Refuse(func(*http.Request) int { return http.StatusHTTPVersionNotSupported })
			if err := b.Put(t.Context(), "a", strings.NewReader("x")); !errors.Is(err, tiers.ErrCommitUnknown) {
				t.Errorf("the server fails, and nobody knows what it has done: %v", err)
			}
			s.Refuse(nil)
			broken := errors.New("broken")
			if err := b.Put(t.Context(), "a", iotest.ErrReader(broken)); !errors.Is(err, broken) {
				t.Errorf("the source breaks, which is what is told: %v", err)
			}
		})
	}
}

func TestGoogleIsNotAskedForEver(t *testing.T) {
	s := cloudtest.Google(t)
	b := open(t, s.URL(""))
	s.Refuse(func(*http.Request) int { return http.StatusServiceUnavailable })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.Get(ctx, "a"); !errors.Is(err, tiers.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("got %v", err)
	}
}

// TestCredentialsAreRenewedAfterTheOpening: what Google lets us in by ends after an hour,
// and a program that makes backups runs for months.
func TestCredentialsAreRenewedAfterTheOpening(t *testing.T) {
	given := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" {
			given++
			_, _ = fmt.Fprintf(w, `{"access_token":"of-%d","token_type":"Bearer","expires_in":1}`, given) // it has to be renewed at once
			return
		}
		_, _ = fmt.Fprint(w, `{"kind":"storage#objects"}`)
	}))
	defer server.Close()
	transport := http.DefaultTransport
	defer func() { http.DefaultTransport = transport }()
	toServer := &http.Transport{DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}}
	defer toServer.CloseIdleConnections()
	http.DefaultTransport = toServer
	file := filepath.Join(t.TempDir(), "credentials.json")
	// With an address in them the driver does not ask the metadata server of the machine,
	// which may be there, and would be left with a connection.
	text := `{"type":"authorized_user","client_email":"c@of.example","client_id":"c","client_secret":"` + cloudtest.Secret + `","refresh_token":"r","token_uri":"` + server.URL + `/token"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	b := open(t, "gs://bucket?universe_domain=of"+port+".example") // the driver keeps the credentials of each
	before := given
	for _, err := range b.List(t.Context(), "") {
		t.Error(err)
	}
	if given == before {
		t.Error("the credentials were not renewed, and nothing is shown")
	}
}

func TestWithoutCredentialsOfGoogleOnlyTheErrorSaysSo(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("STORAGE_EMULATOR_HOST_GRPC", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = out
	_, openErr := cloud.Open(t.Context(), "gs://bucket?universe_domain=without.example")
	os.Stdout = stdout
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(openErr, tiers.ErrUnavailable) || !strings.Contains(openErr.Error(), "GOOGLE_APPLICATION_CREDENTIALS") {
		t.Errorf("got %v", openErr)
	}
	if text, err := os.ReadFile(out.Name()); err != nil || len(text) > 0 {
		t.Errorf("on standard output is %q, %v", text, err)
	}
}
